"""The documents that the demo posts."""
