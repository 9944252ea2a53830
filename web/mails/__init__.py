"""Mails: to whom, what became of each, what it said, and what can be done."""
