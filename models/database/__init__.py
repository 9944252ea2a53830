"""
The database as every package sees it: engine, clock, types, and the tables.

Every statement goes through ``engine.reading`` or ``engine.writing``, which keep the
deadlines and translate the errors. What only PostgreSQL or only SQLite needs has its
own modules. Pure code stays out.
"""
