"""
Where domains come from: files, HTTP and SQL, read in a process with limits.

sources decides what may be opened, and http_source fetches it. ingest_process runs
ingest in a child process, which reads with polars_io and sql_rows.
"""
