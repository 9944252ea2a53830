"""
The workers' side: what is recorded of an operation, and how it is done.

An operation is recorded (record), sent (sending/), claimed (claiming/), run (running/,
steps/), and brought back if its worker is lost (rescue). What steps need of the world
is a port (ports), and stands in adapters/. mail/ and notices/ have what is written to
people, fleet/ who works here. state has the answer to "what happened to this task id?".

Nothing here knows a rule or a broker. dispatch, celery_app, overview and the entry
points come in; actions never does.
"""
