"""
Where actions and operations meet: decisions become rows, and rows become messages.

dispatcher.py records and commits for the leader, and rescues what was lost; outbox.py
and task_outbox.py send. manual_runs.py records runs that somebody asks for;
stored_requests.py keeps requests for many, which bulk/ and backfills/ do. noticer.py
reports failures, and watching.py looks for late runs and for actions that fail again
and again. leading.py leads or stands by, clocks.py follows clocks that have moved, and
upkeep.py does what there is to do before a tick and between ticks. foresee.py decides a
tick without recording it; after_restore.py settles what happened after a backup was
made.

Nothing here knows which broker is used: a ``Sender`` is passed in. celery_app, the
scheduler and the faces may import this package.
"""
