"""
Where actions and operations meet: decisions become rows, and rows become messages.

dispatcher records, commits and sends for the leader, and brings back what was lost;
manual_runs records what somebody asks for; noticer looks for failures that nobody was
notified of. What else a leader does is in leading (lead, or stand by), clocks (those
that have moved) and upkeep (before a tick, and between two). foresee decides a tick and
records nothing; after_restore settles what a restored backup does not know of.

Which broker it is, nobody here knows: a ``Sender`` is handed in. celery_app, the
scheduler and the faces come in.
"""
