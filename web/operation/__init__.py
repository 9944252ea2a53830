"""One operation: its account, its chart, its log, and what can be done about it."""
