"""
The schema's history, and which schema a program may work on.

schema brings a database up to date, schema_revisions tells how far it is, and
live_indexes makes what large tables need while everybody goes on; versions/ has the
steps, and new_migration writes the next one (make migration). Whoever opens a database
comes in to check it.
"""
