"""
What is looked at, in this order: one function for each subject.

A new look is a function that takes a ``View`` and yields findings, a line here, and a
test. A look that the database refuses (a missing grant) becomes a finding of its own.
Now, ``status``, ``doctor``, the metrics and the state of an app show what they find.
"""

from overview.doctor.checks.apps import (
    look_at_bounds,
    look_at_mail,
    look_at_monitors,
    look_at_senders,
    look_at_sign_in,
    look_at_sources,
    look_at_zones,
)
from overview.doctor.checks.database import (
    look_at_broker,
    look_at_database,
    look_at_grants,
    look_at_pooler,
    look_at_schema,
    look_at_strangers,
    look_at_tasks,
)
from overview.doctor.checks.hosts import (
    look_at_clocks,
    look_at_confinement,
    look_at_programs,
    look_at_settings,
    look_at_space,
)
from overview.doctor.checks.scheduler import (
    look_at_lag,
    look_at_leader,
    look_at_pauses,
    look_at_sending,
    look_at_set_back,
    look_at_tick,
)
from overview.doctor.checks.work import (
    look_at_followers,
    look_at_held,
    look_at_outbox,
    look_at_quarantine,
    look_at_queues,
    look_at_troubles,
    look_at_uncertain,
)
from overview.doctor.finding import Look

#: All looks.
LOOKS: dict[str, Look] = {
    "schema": look_at_schema,
    "database": look_at_database,
    "pooler": look_at_pooler,
    "grants": look_at_grants,
    "leader": look_at_leader,
    "tick": look_at_tick,
    "set back": look_at_set_back,
    "sending": look_at_sending,
    "clock": look_at_clocks,
    "settings": look_at_settings,
    "programs": look_at_programs,
    "confinement": look_at_confinement,
    "space": look_at_space,
    "broker": look_at_broker,
    "sources": look_at_sources,
    "tasks": look_at_tasks,
    "strangers": look_at_strangers,
    "mail": look_at_mail,
    "monitor": look_at_monitors,
    "sender": look_at_senders,
    "sign-in": look_at_sign_in,
    "bounds": look_at_bounds,
    "followers": look_at_followers,
    "queues": look_at_queues,
    "outbox": look_at_outbox,
    "held": look_at_held,
    "lag": look_at_lag,
    "pause": look_at_pauses,
    "quarantine": look_at_quarantine,
    "uncertain": look_at_uncertain,
    "troubles": look_at_troubles,
    "tzdata": look_at_zones,
}

#: Those that ask others than the database, or read much of it: they are done now and
#: then, and what they found is kept.
FAR = (
    *("grants", "broker", "sources", "tasks", "sender", "sign-in", "bounds"),
    *("followers", "tzdata"),
)

#: The others, which are done whenever somebody asks how it is.
NEAR = tuple(name for name in LOOKS if name not in FAR)

#: Those that Now shows beside its lists of a day, which have all troubles.
ON_NOW = tuple(name for name in NEAR if name != "troubles")

#: Those that concern whoever may know one small app alone, and tell of no other.
FOR_APPS = (
    "database",
    "leader",
    "tick",
    "set back",
    "sending",
    "queues",
    "lag",
    "pause",
)
