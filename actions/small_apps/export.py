"""What is stored of a small app: its document, its users, the names of its parts."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from pydantic import JsonValue
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from actions.lookup import fetch_app
from models.database.engine import db_now
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
from models.errors import NotFoundError
from models.fields.instants import format_instant
from models.paging import Page, Part

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
            count(scheduled_actions, scheduled_actions.c.deleted_at.is_(None)),
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


def fetch_holidays(
    connection: sa.Connection, app: str
) -> Mapping[str, list[tuple[date, date]]]:
    """Return the day ranges of the newest version of each holiday calendar, by name."""
    rows = connection.execute(
        sa.select(holidays.c.name, holidays.c.days)
        .where(holidays.c.app == app)
        .order_by(holidays.c.version)
    )
    return {
        name: [(date.fromisoformat(a), date.fromisoformat(b)) for a, b in days]
        for name, days in rows
    }


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

    def fetch(key: str, *parts: sa.Column[Any]) -> sa.Result[Any]:
        table = parts[0].table
        query = sa.select(*parts).where(table.c.app == uid)
        return connection.execute(query.order_by(table.c[key]))

    part_of = app_documents.c

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
            for each in fetch("name", *templates.c)
        },
        "documents": {
            each.part: each.staged
            for each in fetch("part", part_of.part, part_of.staged)
            if each.staged is not None
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
    return [_make_user(row, groups).as_document() for row in rows]


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
        values = ((name, getattr(self, name)) for name in USER_COLUMNS)
        return {
            "id": self.id,
            **{
                name: format_instant(value) if isinstance(value, datetime) else value
                for name, value in values
            },
            "groups": list(self.groups),
        }


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
    return [_make_user(row, groups) for row in rows]


def _make_user(row: sa.RowMapping, groups: Mapping[str, list[str]]) -> KnownUser:
    known = {name: row[name] for name in USER_COLUMNS} | {"email": row["email"] or None}
    return KnownUser(id=row["id"], **known, groups=tuple(sorted(groups[row["id"]])))


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
