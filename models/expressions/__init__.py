"""
The languages that rules are written in: cron, and systemd's calendar. Pure.

A text becomes a rule here, which days and times it asks for; at which instants that is,
in a zone whose clocks change, is worked out in actions/when.
"""
