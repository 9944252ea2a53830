"""
The load that is coming, minute by minute.

fetching reads the actions that ticks look at, those of a rule together; counting counts
their occurrences by minute, days those of plain cron rules; forecast puts it together.
"""
