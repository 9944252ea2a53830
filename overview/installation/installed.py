"""
What is installed here, and what somebody who helps from afar needs to see of it.

Of a support bundle small apps, actions, users, notes, texts of errors and addresses are
left out: of what failed it has the state, the reason and the times.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from importlib.metadata import version
from uuid import UUID

import sqlalchemy as sa

from actions.lease import Leadership
from migrations.schema_revisions import get_newest_revision
from models.database.engine import db_now
from models.database.tables import (
    TROUBLED,
    bulk_changes,
    changes,
    deliveries,
    events,
    leaderships,
    operations,
    small_apps,
)
from operations.ports import Retention
from overview.doctor.finding import Finding
from overview.installation.figures import QueueNow
from overview.installation.status import ShownLeader, fetch_status
from overview.installation.workers import ShownProcess
from settings import Settings, describe_settings

_SCHEMA = sa.table("alembic_version", sa.column("version_num", sa.Text))

#: Brokers, by the scheme of their URLs.
_BROKERS = {"memory": "in memory", "amqp": "RabbitMQ", "amqps": "RabbitMQ"}


@dataclass(frozen=True, slots=True)
class Retained:
    """How long rows are kept (null: for good), and the oldest (null: there is none)."""

    what: str
    kept_for_s: float | None
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class SettingInEffect:
    """A setting in effect, without secrets; ``source``: default, environment, ..."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Installed:
    """What is installed; settings are those of the process that answers."""

    versions: Mapping[str, str]
    retention: Sequence[Retained]
    settings: Sequence[SettingInEffect]


def fetch_installed(connection: sa.Connection, settings: Settings) -> Installed:
    """Return what is installed; *settings* are those of this process."""
    found = describe_settings(settings)
    return Installed(
        _fetch_versions(connection, settings),
        _fetch_retention(connection, settings),
        [SettingInEffect(name, *found[name]) for name in sorted(found)],
    )


def _fetch_versions(connection: sa.Connection, settings: Settings) -> dict[str, str]:
    """Return the versions of the program, of its schema, and of what both stand on."""
    found = connection.execute(sa.select(_SCHEMA)).scalars().all()
    wanted = get_newest_revision()
    schema = ", ".join(found) or "none"
    dialect = connection.dialect
    numbers = ".".join(map(str, dialect.server_version_info or ()))
    database = "PostgreSQL" if dialect.name == "postgresql" else "SQLite"
    scheme = settings.broker_url.partition(":")[0]
    return {
        "minutehand": version("minutehand"),
        "schema": schema if found == [wanted] else f"{schema} (wanted: {wanted})",
        "python": platform.python_version(),
        "database": f"{database} {numbers}".strip(),
        "broker": _BROKERS.get(scheme, "Redis"),
        **{name: version(name) for name in ("celery", "kombu", "sqlalchemy")},
    }


def _fetch_retention(connection: sa.Connection, settings: Settings) -> list[Retained]:
    """Return how long what is kept; each of the oldest is found by an index."""
    long, instant = settings.retention, operations.c.recorded_at.type
    usual = Retention(operations=long)
    oldest_event = (
        sa.select(events.c.recorded_at)
        .where(events.c.app == small_apps.c.uid)
        .order_by(events.c.recorded_at)
        .limit(1)
        .scalar_subquery()
    )
    told = (
        ("operations, their steps and logs", long, operations.c.recorded_at),
        ("mails", long, deliveries.c.updated_at),
        ("events", usual.events, oldest_event),
        ("bulk changes", long, bulk_changes.c.created_at),
        ("who led", long, leaderships.c.acquired_at),
        ("record of changes", None, changes.c.at),
    )
    return [
        Retained(
            what,
            None if kept_for is None else kept_for.total_seconds(),
            connection.scalar(sa.select(sa.func.min(at, type_=instant))),
        )
        for what, kept_for, at in told
    ]


#: The most failures and processes.
_MOST = 100

_LATELY = timedelta(days=1)

#: What doctor says of these is about the installation alone; of others, only how it is.
_OF_ALL = frozenset(
    {"schema", "version", "settings", "grants", "leader", "tick", "sending", "clock"}
    | {"space", "broker", "mail", "outbox", "scheduler"}
)

#: Settings that name people, their groups, small apps, or what is theirs.
_PERSONAL = frozenset(
    f"MINUTEHAND_{name}"
    for name in (
        *("ACTOR", "METRICS_APPS", "NOTICE_MAIL", "MAIL_SENDER_HOSTS", "MAIL_SENDER"),
        *("SQL_CONNECTIONS", "TASK_CONNECTIONS", "TASK_RESULTS", "TASK_RULES"),
        *("APP_BOUNDS", "OIDC_GROUPS", "NOTICE_WEBHOOK", "LEADER_PING"),
    )
)


@dataclass(frozen=True, slots=True)
class NamelessFailure:
    """An operation that failed or was missed, without whose it is."""

    id: UUID
    state: str
    reason: str
    queue: str
    trigger: str
    attempt: int
    recorded_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None


@dataclass(frozen=True, slots=True)
class Bundle:
    """A support bundle; ``failures`` are the latest hundred of a day."""

    made_at: datetime
    installation: Installed
    doctor: Sequence[Finding]
    leader: ShownLeader | None
    leaderships: Sequence[Leadership]
    last_tick_at: datetime | None
    tick_age_s: float | None
    lag_s: float
    backlog: Mapping[str, Mapping[str, int]]
    queues: Mapping[str, QueueNow]
    paused: Mapping[str, object]
    processes: Sequence[ShownProcess]
    uncertain_mails: int
    failures: Sequence[NamelessFailure]


def make_bundle(
    connection: sa.Connection, settings: Settings, findings: Sequence[Finding]
) -> Bundle:
    """
    Return a support bundle, of at most some hundred kilobytes.

    Args:
        findings: What doctor found.
    """
    status = fetch_status(connection, settings)
    installed = fetch_installed(connection, settings)
    paused = status.paused
    return Bundle(
        **{name: getattr(status, name) for name in _OF_STATUS},
        made_at=status.now,
        installation=replace(
            installed, settings=[_hide_names(each) for each in installed.settings]
        ),
        doctor=[_strip(each) for each in findings],
        paused={
            "all": paused.all is not None,
            "apps": len(paused.apps),
            "actions": paused.actions,
            "queues": sorted(paused.queues),
        },
        processes=[
            replace(each, drain_asked_by=None) for each in status.processes[:_MOST]
        ],
        failures=_fetch_failures(connection),
    )


#: What it has of the status as it is.
_OF_STATUS = (
    *("leader", "leaderships", "last_tick_at", "tick_age_s", "lag_s"),
    *("backlog", "queues", "uncertain_mails"),
)


def _hide_names(setting: SettingInEffect) -> SettingInEffect:
    names = setting.name in _PERSONAL and setting.value not in {"not set", "none"}
    return replace(setting, value="set") if names else setting


def _strip(finding: Finding) -> Finding:
    """Return a finding without what names a small app."""
    if finding.subject in _OF_ALL:
        return finding
    hidden = "left out, since it may name small apps; see queues, backlog and failures"
    return replace(finding, detail=hidden)


def _fetch_failures(connection: sa.Connection) -> list[NamelessFailure]:
    kept = operations.c
    rows = connection.execute(
        sa.select(*(kept[each.name] for each in fields(NamelessFailure)))
        .where(TROUBLED.of(), kept.finished_at >= db_now(-_LATELY))
        .order_by(kept.finished_at.desc())
        .limit(_MOST)
    )
    found = (NamelessFailure(*row) for row in rows)
    # after the colon is what a server or a tenant said
    return [
        replace(each, reason=(each.reason or "").partition(":")[0]) for each in found
    ]
