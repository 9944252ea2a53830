"""
The leader's side: what is due, what a tick decides of it, and what admins post.

tick.py runs a tick: due_rows.py fetches what is due, decide.py decides it, and
occurrences.py and when/ know the instants of a rule. lease.py elects the leader.
user_events.py records what happens to users. What there is, is read by read_actions.py,
read_rules.py and list_actions.py, and lookup.py finds it by what people call it.

Rooms of their own have what changes actions (posting/, pausing/, small_apps/), why
something ran (explaining/), rules in words (previews/), what is coming (load/), and
what other schedulers ran (importing/).

Nothing here runs an operation or knows a broker. dispatch, celery_app, overview and the
entry points come in; operations never does, nor is it imported from here: what both
speak of is in models, and they meet in dispatch.
"""
