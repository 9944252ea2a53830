"""The tables of django-celery-beat, read without Django."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from actions.importing.origins.imported import Entry
from actions.importing.readers.databases import open_database

_PREFIX = "django_celery_beat_"
_KINDS = ("interval", "crontab", "solar", "clocked")


def read_periodic_tasks(url: str) -> tuple[Entry, ...]:
    """
    Return all periodic tasks, by name.

    Args:
        url: Of the database; see ``open_database``.

    Raises:
        UsageError, UnreachableError: As ``open_database``.
    """
    with open_database(url, of="django-celery-beat") as connection:
        schedules = {
            kind: {row["id"]: row for row in _read_all(connection, f"{kind}schedule")}
            for kind in _KINDS
        }
        tasks = _read_all(connection, "periodictask")
    found = []
    for task in sorted(tasks, key=lambda row: str(row["name"])):
        kind = next((each for each in _KINDS if task[f"{each}_id"] is not None), None)
        schedule = schedules[kind].get(task[f"{kind}_id"]) if kind else None
        found.append(
            Entry(str(task["name"]), {**task, "kind": kind, "schedule": schedule})
        )
    return tuple(found)


def _read_all(connection: sa.Connection, name: str) -> list[Mapping[str, Any]]:
    # Older versions lack some columns, so take those that there are.
    query = sa.select(sa.text("*")).select_from(sa.table(_PREFIX + name))
    return [dict(row) for row in connection.execute(query).mappings()]
