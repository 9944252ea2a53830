"""
Scheduled actions, for every face.

shown has an action with its document, state and next occurrences; recent_runs has what
ran of late, and auditing compares all with their records.
"""
