"""
A worker's claim on an operation: conditional statements that tell whether they won.

claim is the entry point; heart renews the claims of a process until they end.
"""
