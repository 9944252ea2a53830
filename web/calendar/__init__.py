"""The calendar: what ran and what will, by day and hour, and the load ahead."""
