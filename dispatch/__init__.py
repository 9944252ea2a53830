"""
Where actions and operations meet: decisions become rows, and rows become messages.

dispatcher records, commits and sends for the leader, and brings back what was lost;
manual_runs records what somebody asks for; noticer looks for failures that nobody was
told of. What else a leader does is in leading (lead, or stand by), clocks (those that
are not what they were) and upkeep (before a tick, and between two). Which broker it is,
nobody here knows: a ``Sender`` is handed in. celery_app, the scheduler and the faces
come in.
"""
