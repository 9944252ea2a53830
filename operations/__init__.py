"""
The workers' side: how operations are recorded and run.

An operation is recorded (record.py), sent (sending/), claimed (claiming/), run
(running/, steps/), and rescued if its worker is lost (rescue.py). Steps reach the world
through ports (ports.py), which adapters/ implements. mail/ and notices/ write to
people; fleet/ knows the processes of the installation. state.py answers "what happened
to this task id?".

Nothing here knows rules or brokers. dispatch, celery_app, overview and the entry points
may import this package; actions may not.
"""
