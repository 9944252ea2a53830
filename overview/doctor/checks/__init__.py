"""
What doctor looks at, in this order: one function for each subject.

A new look is a function that takes a ``View`` and yields findings, a line here, and a
test. A look that the database refuses (a missing grant) becomes a finding of its own.
"""

from overview.doctor.checks.broker import look_at_broker
from overview.doctor.checks.database import look_at_grants, look_at_pooler
from overview.doctor.checks.hosts import (
    look_at_clocks,
    look_at_programs,
    look_at_settings,
    look_at_space,
)
from overview.doctor.checks.mail import look_at_mail, look_at_senders
from overview.doctor.checks.scheduler import (
    look_at_leader,
    look_at_sending,
    look_at_tick,
)
from overview.doctor.checks.strangers import look_at_strangers
from overview.doctor.checks.tasks import look_at_tasks
from overview.doctor.checks.work import (
    look_at_held,
    look_at_outbox,
    look_at_quarantine,
    look_at_queues,
    look_at_troubles,
)
from overview.doctor.checks.zones import look_at_zones
from overview.doctor.finding import Look

#: All looks but that at the schema, which comes first: tables may be missing.
LOOKS: dict[str, Look] = {
    "pooler": look_at_pooler,
    "grants": look_at_grants,
    "leader": look_at_leader,
    "tick": look_at_tick,
    "sending": look_at_sending,
    "clock": look_at_clocks,
    "settings": look_at_settings,
    "programs": look_at_programs,
    "space": look_at_space,
    "broker": look_at_broker,
    "tasks": look_at_tasks,
    "strangers": look_at_strangers,
    "mail": look_at_mail,
    "sender": look_at_senders,
    "queues": look_at_queues,
    "quarantine": look_at_quarantine,
    "outbox": look_at_outbox,
    "held": look_at_held,
    "troubles": look_at_troubles,
    "tzdata": look_at_zones,
}
