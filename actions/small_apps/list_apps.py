"""Read which small apps there are, and what belongs to each; nothing here writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from models.database.tables import (
    app_documents,
    domains,
    holidays,
    memberships,
    scheduled_actions,
    small_apps,
    templates,
    users,
)

#: Later than any occurrence.
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)

#: How many of an action's latest operations are searched for its last success.
LOOKED_BACK = 1000

_kept = scheduled_actions.c


def fetch_apps(
    connection: sa.Connection,
    *,
    app: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[sa.Row[Any]]:
    """
    Return small apps with the number of their users, domains and actions, by uid.

    Args:
        connection: Any.

        app: Only this one. None: all.

        after: Only those whose uid sorts behind this. None: all.

        limit: The most. None: all.
    """

    def count(table: sa.Table, *where: sa.ColumnElement[bool]) -> Any:
        return (
            sa.select(sa.func.count())
            .select_from(table)
            .where(table.c.app == small_apps.c.uid, *where)
            .scalar_subquery()
            .label(table.name)
        )

    query = (
        sa.select(
            small_apps.c.uid,
            small_apps.c.name,
            small_apps.c.timezone,
            small_apps.c.paused_at,
            small_apps.c.paused_until,
            small_apps.c.paused_by,
            small_apps.c.pause_note,
            small_apps.c.revision,
            count(users),
            count(domains),
            count(scheduled_actions, _kept.deleted_at.is_(None)),
        )
        .where(small_apps.c.deleted_at.is_(None))
        .order_by(small_apps.c.uid)
        .limit(limit)
    )
    if app is not None:
        query = query.where(small_apps.c.uid == app)
    if after is not None:
        query = query.where(small_apps.c.uid > after)
    return list(connection.execute(query))


def fetch_domains(connection: sa.Connection, app: str) -> list[sa.Row[Any]]:
    """Return the domains of *app* by name, with their staged and live versions."""
    return list(
        connection.execute(
            sa.select(domains).where(domains.c.app == app).order_by(domains.c.name)
        )
    )


def fetch_groups(connection: sa.Connection, app: str) -> dict[str, int]:
    """Return how many members each group of *app* has."""
    rows = connection.execute(
        sa.select(memberships.c.group_name, sa.func.count().label("members"))
        .where(memberships.c.app == app)
        .group_by(memberships.c.group_name)
        .order_by(memberships.c.group_name)
    )
    return {row.group_name: row.members for row in rows}


def fetch_group_names(connection: sa.Connection, app: str) -> list[str]:
    """
    Return the names of the groups of *app*, sorted.

    It looks at one member of each: an app may have a hundred thousand.
    """
    name, of_app = memberships.c.group_name, memberships.c.app == app
    first = sa.select(sa.func.min(name).label("name")).where(of_app)
    found = first.cte("found", recursive=True)
    following = sa.select(sa.func.min(name)).where(of_app, name > found.c.name)
    found = found.union_all(
        sa.select(following.correlate(found).scalar_subquery()).where(
            found.c.name.is_not(None)
        )
    )
    names = sa.select(found.c.name).where(found.c.name.is_not(None))
    return list(connection.execute(names.order_by(found.c.name)).scalars())


def count_users(connection: sa.Connection, app: str) -> int:
    """Return how many users *app* has."""
    return connection.execute(
        sa.select(sa.func.count()).select_from(users).where(users.c.app == app)
    ).scalar_one()


def fetch_names(connection: sa.Connection, app: str) -> dict[str, list[str]]:
    """Return the names of the templates, documents and holiday calendars of *app*."""
    columns = {
        "templates": templates.c.name,
        "documents": app_documents.c.part,
        "holidays": holidays.c.name,
    }
    return {
        part: list(
            connection.execute(
                sa.select(column)
                .where(column.table.c.app == app)
                .distinct()
                .order_by(column)
            ).scalars()
        )
        for part, column in columns.items()
    }
