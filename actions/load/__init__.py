"""
What the rules say is coming.

foresee.py reads the actions that ticks look at, those of a rule together; counting.py
counts their occurrences by minute. forecast.py has the load ahead, and when the
database may be away. calendar_file.py has the occurrences of one small app in the
format of calendar programs.
"""
