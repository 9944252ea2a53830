"""The list of operations: what it is asked, and many of them changed at once."""
