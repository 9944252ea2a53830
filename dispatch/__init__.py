"""
Where actions and operations meet: decisions become rows, and rows become messages.

dispatcher records, commits and sends for the leader, and rescues lost operations;
manual_runs records runs that somebody asks for; stored_requests keeps requests for
many, which bulk/ and backfills/ do; noticer looks for failures that were not reported
yet. A leader also needs leading (lead, or stand by), clocks (clocks that
have moved) and upkeep (work before a tick and between ticks). foresee decides a tick
without recording it; after_restore settles what happened after a backup was made.

Nothing here knows which broker is used: a ``Sender`` is passed in. celery_app, the
scheduler and the faces may import this package.
"""
