"""
Where domains come from: files, HTTP and SQL, read in a process with bounds.

sources decides what may be opened, ingest_process runs ingest in a child of its own,
which reads with polars_io and sql_rows.
"""
