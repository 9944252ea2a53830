"""
A worker's claim on an operation: conditional statements that tell whether they won.

claim.py is the way in; heart.py renews the claims of a process until they end.
"""
