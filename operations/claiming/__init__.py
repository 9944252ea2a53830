"""
A worker's claim on an operation: conditional statements that tell whether they won.

claim is the way in; heart renews what a process has claimed until it is done.
"""
