"""
The history of the schema, and which schema a program may work on.

schema brings a database up to date, schema_revisions knows which schema it has,
live_indexes adds to large tables while everybody goes on working, versions/ has the
migrations, and new_migration writes the next one (make migration). Every program that
opens a database checks it here.
"""
