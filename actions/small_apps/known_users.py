"""Read the users and the groups of a small app, part by part."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from actions.lookup import fetch_app
from actions.small_apps.export import (
    USER_COLUMNS,
    fetch_groups,
    fetch_groups_of,
    make_user_document,
)
from models.database.engine import db_now
from models.database.tables import memberships, users
from models.errors import NotFoundError
from models.paging import Page, Part

#: Users that one part of a list looks at for what no index knows, such as a text: some
#: 20 ms. If the app has more, the part may have few or none, and the list goes on.
LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True)
class KnownUser:
    """A user of a small app, with their groups, which are sorted."""

    id: str
    email: str | None
    name: str | None
    locale: str | None
    groups: tuple[str, ...]
    disabled: bool
    expires_at: datetime | None
    created_at: datetime | None
    activated_at: datetime | None
    last_seen_at: datetime | None

    @property
    def tag(self) -> str:
        """A digest of all that is known of the user: another one if any of it is."""
        text = json.dumps(self.as_document(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def as_document(self) -> dict[str, Any]:
        """Return the user as the document of a small app has them."""
        return make_user_document(asdict(self), list(self.groups))


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A group of a small app, and how many members it has."""

    name: str
    members: int


@dataclass(frozen=True, slots=True)
class UserFilter:
    """
    Which users are wanted; all that is given must hold.

    Args:
        group: Its members.
        text: Part of the id, the mail address or the name, whatever the case.
        inactive: Whether the account is disabled or has expired.
        inactivated: Whether the user never activated the account.
    """

    group: str | None = None
    text: str | None = None
    inactive: bool | None = None
    inactivated: bool | None = None


def fetch_known_user(
    connection: sa.Connection, app: str, user_id: str, *, lock: bool = False
) -> KnownUser:
    """
    Return one user of *app*.

    Args:
        connection: Any; in a transaction if *lock* is set.
        user_id: Exactly as it is stored.
        lock: Whether to lock the user against changes until the commit.

    Raises:
        NotFoundError: No such small app, or it has no such user.
    """
    fetch_app(connection, app)
    query = sa.select(users).where(users.c.app == app, users.c.id == user_id)
    found = connection.execute(query.with_for_update() if lock else query)
    row = found.mappings().one_or_none()
    if row is None:
        raise NotFoundError(f"small app {app!r} has no user {user_id!r}")
    return _add_groups(connection, app, [row])[0]


def fetch_user_part(
    connection: sa.Connection,
    app: str,
    wanted: UserFilter,
    page: Page,
    *,
    most: int = LOOKED_AT,
) -> Part[KnownUser]:
    """
    Return a part of the users of *app* that are *wanted*, by id.

    Args:
        wanted: Which users.
        page: Its position is the id.
        most: How many users to look at.

    Returns:
        Fewer than asked for, although the list goes on, if *most* were looked at.

    Raises:
        NotFoundError: No such small app.
    """
    fetch_app(connection, app)
    place = _find_place(app, wanted, page)
    ordered = sa.select(users).where(*place).order_by(users.c.id)
    seen = ordered.limit(most).subquery("seen")
    query = sa.select(seen).where(*_match(seen.c, wanted)).order_by(seen.c.id)
    rows = connection.execute(query.limit(page.limit + 1)).mappings().all()
    found = _add_groups(connection, app, rows[: page.limit])
    if len(rows) > page.limit:
        return Part(found, (found[-1].id,))
    last = sa.select(users.c.id).where(*place).order_by(users.c.id).offset(most - 1)
    end = connection.execute(last.limit(1)).scalar_one_or_none()
    return Part(found, None if end is None else (end,))


def _find_place(
    app: str, wanted: UserFilter, page: Page
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that an index serves."""
    found = [users.c.app == app]
    if wanted.group is not None:
        kept = memberships.c
        of_group = (kept.app == app, kept.group_name == wanted.group)
        found.append(sa.exists().where(*of_group, kept.user_id == users.c.id))
    after = page.read_after(str)
    if after is not None:
        found.append(users.c.id > after[0])
    return found


def _match(
    kept: ReadOnlyColumnCollection[str, Any], wanted: UserFilter
) -> list[sa.ColumnElement[bool]]:
    """Return the other conditions, on the columns *kept*."""
    found: list[sa.ColumnElement[bool]] = []
    if wanted.text is not None:
        searched = (kept.id, kept.email, kept.name)
        has_text = (each.icontains(wanted.text, autoescape=True) for each in searched)
        found.append(sa.or_(*has_text))
    if wanted.inactive is not None:
        expired = sa.func.coalesce(kept.expires_at <= db_now(), sa.false())
        inactive = sa.or_(kept.disabled, expired)
        found.append(inactive if wanted.inactive else sa.not_(inactive))
    if wanted.inactivated is not None:
        never = kept.activated_at.is_(None)
        found.append(never if wanted.inactivated else sa.not_(never))
    return found


def _add_groups(
    connection: sa.Connection, app: str, rows: Collection[sa.RowMapping]
) -> list[KnownUser]:
    ids = [row["id"] for row in rows]
    groups = fetch_groups_of(connection, app, memberships.c.user_id.in_(ids))
    return [
        KnownUser(
            **{name: row[name] for name in ("id", *USER_COLUMNS) if name != "email"},
            email=row["email"] or None,
            groups=tuple(sorted(groups[row["id"]])),
        )
        for row in rows
    ]


def fetch_group_part(
    connection: sa.Connection, app: str, page: Page
) -> Part[KnownGroup]:
    """
    Return a part of the groups of *app*, by name; ``all`` is never listed.

    Raises:
        NotFoundError: No such small app.
    """
    fetch_app(connection, app)
    start = page.read_after(str)
    after = None if start is None else start[0]
    counts = fetch_groups(connection, app, after=after, limit=page.limit + 1)
    found = [KnownGroup(*each) for each in counts.items()][: page.limit]
    more = len(counts) > page.limit
    return Part(found, (found[-1].name,) if more else None)
