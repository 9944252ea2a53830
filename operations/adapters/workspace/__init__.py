"""The versions of data: Parquet files, and pointers to them in the database."""
