"""``minutehand demo``: the real thing on a small app with real data, watched live."""
