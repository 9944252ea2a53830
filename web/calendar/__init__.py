"""
What ran and what will, by day and hour, as the clocks of a zone show them.

counted is the calendar: days has the hours of local days, fetching counts what was
decided. planned lists what is due in a short time, and file has the same for calendar
programs, which read icalendar.
"""
