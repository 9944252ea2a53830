"""
The schema's history, and which schema a program may work on.

schema brings a database up to date, revisions tells how far it is, live_indexes makes
what large tables need while everybody goes on; versions/ has the steps. Whoever opens a
database comes in to check it.
"""
