"""
Scheduled actions, for every face.

shown has an action with its document, state and next occurrences; documents what posts
many again, first the one that a new installation begins with. revisions says what was
changed, occurrences and recent_runs what was due and ran, days what became of it day by
day, pauses whether it is paused. explaining answers why it ran or did not, and auditing
compares all with their records.
"""
