"""Read which small apps there are, and what belongs to each; nothing here writes."""

from __future__ import annotations

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


def fetch_groups(
    connection: sa.Connection,
    app: str,
    *,
    after: str | None = None,
    limit: int | None = None,
) -> dict[str, int]:
    """
    Return how many members each group of *app* has, by name.

    The members of each name are counted along an index, which takes half as long as to
    sort all memberships of the app into groups.

    Args:
        after: Only groups whose name sorts behind this. None: all.
        limit: The most. None: all.
    """
    found = _find_group_names(app, after)
    of_group = (memberships.c.app == app, memberships.c.group_name == found.c.name)
    members = sa.select(sa.func.count()).select_from(memberships).where(*of_group)
    query = sa.select(found.c.name, members.correlate(found).scalar_subquery())
    rows = connection.execute(query.where(found.c.name.is_not(None)).limit(limit))
    # Each is found from the one before, so they come in the order of the database. To
    # have them sorted would make it find all before it returns some.
    return {row[0]: row[1] for row in rows}


def fetch_group_names(connection: sa.Connection, app: str) -> list[str]:
    """
    Return the names of the groups of *app*, sorted.

    It looks at one member of each: an app may have a hundred thousand.
    """
    found = _find_group_names(app, None)
    names = sa.select(found.c.name).where(found.c.name.is_not(None))
    return list(connection.execute(names.order_by(found.c.name)).scalars())


def _find_group_names(app: str, after: str | None) -> sa.CTE:
    """Return each name that sorts behind *after*, and null at the end."""
    name = memberships.c.group_name
    here = [memberships.c.app == app]
    first = sa.select(sa.func.min(name).label("name")).where(
        *here, *(() if after is None else (name > after,))
    )
    found = first.cte("found", recursive=True)
    following = sa.select(sa.func.min(name)).where(*here, name > found.c.name)
    return found.union_all(
        sa.select(following.correlate(found).scalar_subquery()).where(
            found.c.name.is_not(None)
        )
    )


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
