"""The document of a small app, made from what is stored of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import JsonValue

from actions.lookup import fetch_app
from actions.posting.post import fetch_holidays
from models.database.tables import (
    app_documents,
    domains,
    memberships,
    templates,
    users,
)
from models.fields.instants import format_instant

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
    document: dict[str, JsonValue] = {
        "uid": row.uid,
        "name": row.name,
        "timezone": row.timezone,
        "notices": row.notices,
        "mail": row.mail,
        "users": _fetch_users(connection, uid) if with_users else [],
        "domains": [
            {"name": each.name, "source": each.source, **(each.labels or {})}
            for each in connection.execute(
                sa.select(domains.c.name, domains.c.source, domains.c.labels)
                .where(domains.c.app == uid)
                .order_by(domains.c.name)
            )
        ],
        "templates": {
            each.name: _drop_none(
                {"subject": each.subject, "text": each.text, "html": each.html}
            )
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
    return document


def _fetch_users(connection: sa.Connection, app: str) -> list[JsonValue]:
    groups = defaultdict[str, list[str]](list)
    for user_id, group in connection.execute(
        sa.select(memberships.c.user_id, memberships.c.group_name)
        .where(memberships.c.app == app)
        .order_by(memberships.c.group_name)
    ):
        groups[user_id].append(group)
    rows = connection.execute(
        sa.select(users).where(users.c.app == app).order_by(users.c.id)
    ).mappings()
    return [make_user_document(row, groups[row["id"]]) for row in rows]


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


def _drop_none(values: dict[str, JsonValue]) -> JsonValue:
    return {name: value for name, value in values.items() if value is not None}
