"""
Backfills: past occurrences of an action that run after all.

They are listed first (planning.py), then stored (requests.py), and the leader records
them little by little (progress.py), under the ids that the occurrences have anyway. So
nothing runs twice, whatever races with a backfill.
"""
