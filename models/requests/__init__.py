"""
What people send with a request beside documents: notes, periods, choices, filters.

A file for each thing that is asked of. The door reads them like all that people write;
the routes of the HTTP API take them as their bodies.
"""
