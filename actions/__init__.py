"""
The leader's side: what is due, what a tick decides of it, and what admins post.

Here are the tick (tick, decide, decide_events, due_action, due_rows), the occurrences
of a rule (occurrences, when/), the election (leader), what happens to users
(user_events), and what there is (listing), found by what people call it (lookup). Rooms
of their own have what changes actions (posting/, pausing/, small_apps/), what tells why
something ran (explaining/), rules in words (previews/), and what other schedulers ran
(importing/).

Nothing here runs an operation or knows a broker. dispatch, celery_app, overview and the
entry points come in; operations never does, nor is it imported from here: what both
speak of is in models, and they meet in dispatch.
"""
