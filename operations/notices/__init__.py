"""Notices of failures: how they are grouped, kept, and worded."""
