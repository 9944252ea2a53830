"""The page of all actions: fetch_counts counts them, and has those of an export."""
