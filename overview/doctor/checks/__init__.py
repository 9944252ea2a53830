"""
What is looked at, in this order: one function for each subject.

A new look is a function that takes a ``View`` and yields findings, a line here, and a
test. A look that the database refuses (a missing grant) becomes a finding of its own.
Now, ``status``, ``doctor``, the metrics and the state of an app show what they find.
"""

from overview.doctor.checks import apps, database, hosts, scheduler, work
from overview.doctor.finding import Look

#: All looks.
LOOKS: dict[str, Look] = {
    "schema": database.look_at_schema,
    "database": database.look_at_database,
    "pooler": database.look_at_pooler,
    "locks": database.look_at_locks,
    "grants": database.look_at_grants,
    "leader": scheduler.look_at_leader,
    "tick": scheduler.look_at_tick,
    "set back": scheduler.look_at_set_back,
    "sending": scheduler.look_at_sending,
    "clock": hosts.look_at_clocks,
    "settings": hosts.look_at_settings,
    "programs": hosts.look_at_programs,
    "confinement": hosts.look_at_confinement,
    "space": hosts.look_at_space,
    "broker": database.look_at_broker,
    "sources": apps.look_at_sources,
    "tasks": database.look_at_tasks,
    "strangers": database.look_at_strangers,
    "mail": apps.look_at_mail,
    "sign-in": apps.look_at_sign_in,
    "bounds": apps.look_at_bounds,
    "followers": work.look_at_followers,
    "queues": work.look_at_queues,
    "outbox": work.look_at_outbox,
    "held": work.look_at_held,
    "lag": scheduler.look_at_lag,
    "pause": scheduler.look_at_pauses,
    "quarantine": work.look_at_quarantine,
    "uncertain": work.look_at_uncertain,
    "troubles": work.look_at_troubles,
    "tzdata": apps.look_at_zones,
}

#: Those that ask others than the database, or read much of it: they are done now and
#: then, and what they found is kept.
FAR = (
    *("grants", "broker", "sources", "tasks", "sign-in", "bounds"),
    *("followers", "tzdata"),
)

#: The others, which are done whenever somebody asks how it is.
NEAR = tuple(name for name in LOOKS if name not in FAR)

#: Those that Now shows beside its lists of a day, which have all troubles.
ON_NOW = tuple(name for name in NEAR if name != "troubles")

#: Those that concern whoever may know one small app alone, and tell of no other.
FOR_APPS = (
    *("database", "leader", "tick", "set back", "sending"),
    *("queues", "lag", "pause", "quarantine", "uncertain"),
)
