"""
Bulk changes: one change of many operations or actions, stored with its progress.

They are counted and stored first (requests.py); then any process with a runner does
them in batches (runner.py). A runner that is killed leaves its place in the row, and
another goes on from there.
"""
