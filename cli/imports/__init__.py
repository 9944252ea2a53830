"""``minutehand import``: one module for each origin; they share ``showing``."""
