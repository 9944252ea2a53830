"""
What the rules say is coming.

foresee reads the actions that ticks look at, those of a rule together, and counting
counts their occurrences by minute; forecast is the load ahead, and quiet says when the
database may be away. calendar_file has the same of one small app for calendar programs,
which read icalendar.
"""
