"""What is installed here: versions, settings in effect, and how long what is kept."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version

import sqlalchemy as sa

from migrations.schema_revisions import get_newest_revision
from models.database.tables import (
    bulk_changes,
    changes,
    deliveries,
    events,
    leaderships,
    operations,
    small_apps,
)
from operations.ports import Retention
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
    long = settings.retention
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
            connection.execute(sa.select(_find_least(at))).scalar(),
        )
        for what, kept_for, at in told
    ]


def _find_least(at: sa.ColumnElement[datetime]) -> sa.ColumnElement[datetime]:
    return sa.func.min(at, type_=operations.c.recorded_at.type)
