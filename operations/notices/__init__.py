"""Notices of failures: how they are grouped, stored, and worded."""
