"""
The languages in which rules are written: cron, and systemd's calendar. Pure.

Here a text becomes an expression, which knows the days and times that are asked for.
actions/when works out at which instants that is, in a zone whose clocks change.
"""
