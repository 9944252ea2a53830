"""
What every face shows: status, findings, figures and metrics, as plain data.

Functions take a connection and return dataclasses, which models/json_form.py writes. A
face only formats them. Its rooms:

- installation: its state and figures; queues, workers and leaders
- doctor: what looks for problems, and from when on something is one
- why: why something ran, waits or did not run

Beside them what is shown of one kind of thing, with all that is known about it: actions
and their recent_runs, operations, recipients, small_apps and their data, events,
live_events. And auditing, which compares all actions with their records, changes, and
previews: what would happen, of a rule, an edit or a run. What one page alone shows
stands in its room of web/.

The faces and the scheduler import this room, which writes nothing.
"""
