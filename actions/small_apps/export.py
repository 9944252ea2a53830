"""What is stored of a small app: as its document, and as the names of its parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import JsonValue

from actions.lookup import fetch_app
from actions.posting.post import fetch_holidays
from models.database.lists import belongs_to
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
from models.fields.instants import format_instant

_action = scheduled_actions.c


#: The columns of small apps in lists.
_LISTED = (
    *("uid", "name", "timezone", "revision"),
    *("paused_at", "paused_until", "paused_by", "pause_note"),
)


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
        found = sa.select(sa.func.count()).select_from(table)
        of_app = found.where(table.c.app == small_apps.c.uid, *where)
        return of_app.scalar_subquery().label(table.name)

    query = (
        sa.select(
            *(small_apps.c[name] for name in _LISTED),
            count(users),
            count(domains),
            count(scheduled_actions, _action.deleted_at.is_(None)),
        )
        .where(small_apps.c.deleted_at.is_(None), *belongs_to(app, small_apps.c.uid))
        .order_by(small_apps.c.uid)
        .limit(limit)
    )
    if after is not None:
        query = query.where(small_apps.c.uid > after)
    return list(connection.execute(query))


def fetch_domains(connection: sa.Connection, app: str) -> list[sa.Row[Any]]:
    """Return the domains of *app* by name, with their staged and live versions."""
    query = sa.select(domains).where(domains.c.app == app).order_by(domains.c.name)
    return list(connection.execute(query))


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
    behind = () if after is None else (name > after,)
    first = sa.select(sa.func.min(name).label("name")).where(*here, *behind)
    found = first.cte("found", recursive=True)
    following = sa.select(sa.func.min(name)).where(*here, name > found.c.name)
    return found.union_all(
        sa.select(following.correlate(found).scalar_subquery()).where(
            found.c.name.is_not(None)
        )
    )


def count_users(connection: sa.Connection, app: str) -> int:
    """Return how many users *app* has."""
    query = sa.select(sa.func.count()).where(users.c.app == app)
    return connection.execute(query).scalar_one()


def fetch_names(connection: sa.Connection, app: str) -> dict[str, list[str]]:
    """Return the names of the templates, documents and holiday calendars of *app*."""
    columns = {
        "templates": templates.c.name,
        "documents": app_documents.c.part,
        "holidays": holidays.c.name,
    }
    found = {}
    for part, column in columns.items():
        query = sa.select(column).where(column.table.c.app == app).distinct()
        found[part] = list(connection.execute(query.order_by(column)).scalars())
    return found


#: The columns of a user that are members of its document, but for the id.
USER_COLUMNS = (
    *("email", "name", "locale", "disabled"),
    *("expires_at", "created_at", "activated_at", "last_seen_at"),
)


def fetch_document(
    connection: sa.Connection, uid: str, *, with_users: bool = True
) -> dict[str, JsonValue]:
    """
    Return the whole document of a small app, as ``apps apply`` takes it.

    Applying it again changes nothing. It has all that the app's admins wrote, the
    values of queries in addresses too, which may be keys: only who may write them
    should read them. It has neither the folder of source files, which is the
    operator's, nor versions of data, pauses, keys and actions.

    Args:
        with_users: Whether they are in it, who may be many.

    Raises:
        NotFoundError: No such small app.
    """
    row = fetch_app(connection, uid)
    own = ("uid", "name", "timezone", "notices", "mail")
    return {
        **{name: getattr(row, name) for name in own},
        "users": _fetch_users(connection, uid) if with_users else [],
        "domains": [
            {"name": each.name, "source": each.source, **(each.labels or {})}
            for each in fetch_domains(connection, uid)
        ],
        "templates": {
            each.name: {
                part: text
                for part in ("subject", "text", "html")
                if (text := getattr(each, part)) is not None
            }
            for each in connection.execute(
                sa.select(templates)
                .where(templates.c.app == uid)
                .order_by(templates.c.name)
            )
        },
        "documents": {
            each.part: each.staged
            for each in connection.execute(
                sa.select(app_documents.c.part, app_documents.c.staged)
                .where(app_documents.c.app == uid, app_documents.c.staged.is_not(None))
                .order_by(app_documents.c.part)
            )
        },
        "holidays": {
            name: [
                str(first)
                if first == last
                else {"from": str(first), "until": str(last)}
                for first, last in days
            ]
            for name, days in sorted(fetch_holidays(connection, uid).items())
        },
    }


def _fetch_users(connection: sa.Connection, app: str) -> list[JsonValue]:
    groups = fetch_groups_of(connection, app)
    rows = connection.execute(
        sa.select(users).where(users.c.app == app).order_by(users.c.id)
    ).mappings()
    return [make_user_document(row, groups[row["id"]]) for row in rows]


def fetch_groups_of(
    connection: sa.Connection, app: str, *where: sa.ColumnElement[bool]
) -> Mapping[str, list[str]]:
    """Return the groups of each user of *app* that has some, in their order."""
    groups = defaultdict[str, list[str]](list)
    kept = memberships.c
    for user_id, group in connection.execute(
        sa.select(kept.user_id, kept.group_name)
        .where(kept.app == app, *where)
        .order_by(kept.group_name)
    ):
        groups[user_id].append(group)
    return groups


def make_user_document(
    row: Mapping[str, Any] | sa.RowMapping, groups: list[str]
) -> dict[str, JsonValue]:
    """Return a user with all members, as the document of a small app has it."""
    return {
        "id": row["id"],
        **{name: _plain(row[name]) for name in USER_COLUMNS},
        "email": row["email"] or None,
        "groups": list(groups),
    }


def _plain(value: Any) -> JsonValue:
    return format_instant(value) if isinstance(value, datetime) else value
