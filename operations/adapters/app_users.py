"""Users, memberships and templates of small apps, from the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TypeVar

import sqlalchemy as sa

from models.database.engine import reading
from models.database.recipient_filter import are_addressed, select_standing
from models.database.tables import (
    MAY_BE_LEFT_OUT,
    memberships,
    small_apps,
    templates,
    users,
)
from models.fields.zone import load_zone
from models.operation import RecipientFilterModel, Standing
from models.paging import Page, Part
from operations.mail.message import MailingApp, Template, make_letterhead
from operations.recipients import User

#: The fields of a user but the groups; names and locales that nobody gave are empty.
_OF_USER = (
    *(users.c.id, users.c.email, users.c.disabled, users.c.expires_at),
    *(users.c.created_at, users.c.activated_at, users.c.last_seen_at),
    sa.func.coalesce(users.c.name, "").label("name"),
    sa.func.coalesce(users.c.locale, "").label("locale"),
)


def fetch_users(
    connection: sa.Connection, app: str, ids: Collection[str] | None = None
) -> tuple[User, ...]:
    """Return the users *ids* of *app* (None: all) with their groups, ordered by id."""
    query = sa.select(*_OF_USER).where(users.c.app == app).order_by(users.c.id)
    member = sa.select(memberships.c.user_id, memberships.c.group_name).where(
        memberships.c.app == app
    )
    if ids is not None:
        query = query.where(users.c.id.in_(ids))
        member = member.where(memberships.c.user_id.in_(ids))
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for user_id, group in connection.execute(member):
        groups[user_id].add(group)
    return tuple(
        User(**row, groups=frozenset(groups[row["id"]]))
        for row in connection.execute(query).mappings()
    )


def find_user(connection: sa.Connection, app: str, given: str) -> User | None:
    """Return the user of *app* whose id or mail address is *given*; None: nobody's."""
    known = sa.or_(users.c.id == given, users.c.email == given)
    found = _fetch_first(connection, app, 1, known)
    return found[0] if found else None


def _fetch_first(
    connection: sa.Connection, app: str, limit: int, *wanted: sa.ColumnElement[bool]
) -> tuple[User, ...]:
    """Return the first *limit* users of *app* who are *wanted*, by id."""
    query = sa.select(users.c.id).where(users.c.app == app, *wanted)
    ids = connection.scalars(query.order_by(users.c.id).limit(limit)).all()
    return fetch_users(connection, app, ids)


#: How many users one part looks at for those that are inside, or outside. If there are
#: more, the part may have few entries or none, and the list goes on all the same.
USERS_LOOKED_AT = 1000

_Judged = TypeVar("_Judged")


def fetch_judged(
    connection: sa.Connection,
    app: str,
    page: Page,
    judge: Callable[[User], _Judged],
    is_wanted: Callable[[_Judged], bool] | None,
) -> Part[_Judged]:
    """
    Return a part of what *judge* says of the users of *app*, by their ids.

    Args:
        page: Its position is the id of a user.
        is_wanted: Which are in the part. None: all.
    """
    after = page.read_after(str)
    most = page.limit if is_wanted is None else max(page.limit, USERS_LOOKED_AT)
    beyond = () if after is None else (users.c.id > after[0],)
    looked_at = _fetch_first(connection, app, most + 1, *beyond)
    found: list[_Judged] = []
    for number, user in enumerate(looked_at):
        if number == most or len(found) == page.limit:
            return Part(found, (looked_at[number - 1].id,))
        judged = judge(user)
        if is_wanted is None or is_wanted(judged):
            found.append(judged)
    return Part(found, None)


def count_left_out(
    connection: sa.Connection,
    app: str,
    who: RecipientFilterModel,
    *,
    now: datetime,
    on_event: bool,
) -> tuple[int, dict[Standing, int]]:
    """
    Return how many users of *app* are inside a filter, and who of those named are not.

    It says in SQL what ``recipients.judge`` does, since an app may have a hundred
    thousand users; a test compares the two.

    Args:
        now: Aware.
        on_event: As for ``judge``.

    Returns:
        The count of those inside; and that of the users whom *who* names, but leaves
        out, by their standing. Users who are not named are in neither.
    """
    standing = select_standing(who, now).label("standing")
    counted = (
        sa.select(standing, sa.func.count())
        .select_from(users)
        .where(users.c.app == app, *are_addressed(who, on_event=on_event))
        .group_by(standing)
    )
    # Then few can be left out: they have an index, and the others are only counted.
    is_usual = not (who.only_inactive_users or who.only_inactivated_users)
    if is_usual:
        counted = counted.where(MAY_BE_LEFT_OUT.of("users"))
    rows = connection.execute(counted).all()
    left_out = {Standing(key): count for key, count in rows if key is not None}
    if not is_usual:
        return sum(count for key, count in rows if key is None), left_out
    total = _count_named(connection, app, who, on_event=on_event)
    return total - sum(left_out.values()), left_out


def _count_named(
    connection: sa.Connection, app: str, who: RecipientFilterModel, *, on_event: bool
) -> int:
    """Return how many users *who* names, whether it keeps them or not."""
    conditions = are_addressed(who, on_event=on_event)
    query = sa.select(sa.func.count()).select_from(users)
    query = query.where(users.c.app == app, *conditions)
    if conditions and not who.users:
        # Each member is a user: the index of members is enough.
        member = memberships.c
        ids = member.user_id if len(who.groups) == 1 else member.user_id.distinct()
        query = sa.select(sa.func.count(ids)).where(
            member.app == app, member.group_name.in_(who.groups)
        )
    return connection.execute(query).scalar_one()


def fetch_addressed(  # noqa: PLR0913 - the filter, and which part
    connection: sa.Connection,
    app: str,
    who: RecipientFilterModel,
    *,
    now: datetime,
    on_event: bool,
    inside: bool,
    limit: int,
) -> tuple[User, ...]:
    """
    Return the first users, by id, whom a filter names.

    Args:
        now: Aware.
        on_event: As for ``judge``.
        inside: Those who get the mails (True), or those whom it leaves out (False).
        limit: The most users.
    """
    standing = select_standing(who, now)
    is_wanted = standing.is_(None) if inside else standing.is_not(None)
    named = are_addressed(who, on_event=on_event)
    return _fetch_first(connection, app, limit, *named, is_wanted)


class RealDirectory:
    """Implements :class:`operations.ports.Directory`."""

    def __init__(self, engine: sa.Engine, *, timezone: str = "UTC") -> None:
        """Take the engine of this process, and the zone of apps that name none."""
        self._engine = engine
        self._timezone = timezone

    def fetch_users(self, app: str) -> tuple[User, ...]:
        """Return every user of *app* with their groups, ordered by id."""
        with reading(self._engine) as connection:
            return fetch_users(connection, app)

    def get_user(self, app: str, user_id: str) -> User | None:
        """Return the user *user_id* of *app*."""
        with reading(self._engine) as connection:
            found = fetch_users(connection, app, [user_id])
        return found[0] if found else None

    def fetch_locales(self, app: str, addresses: Sequence[str]) -> dict[str, str]:
        """Return the locales of the users of *app* with *addresses*, by address."""
        statement = (
            sa.select(users.c.email, users.c.locale)
            .where(users.c.app == app, users.c.email.in_(addresses))
            .where(users.c.locale.is_not(None))
            .order_by(users.c.id)
        )
        with reading(self._engine) as connection:
            return {row.email: row.locale for row in connection.execute(statement)}

    def get_template(self, app: str, name: str) -> Template | None:
        """Return the template *name* of *app*."""
        kept = templates.c
        statement = sa.select(kept.name, kept.subject, kept.text, kept.html).where(
            kept.app == app, kept.name == name
        )
        with reading(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else Template(*row)

    def fetch_template_names(self, app: str) -> tuple[str, ...]:
        """Return the names of all templates of *app*, for messages."""
        kept = templates.c
        statement = sa.select(kept.name).where(kept.app == app).order_by(kept.name)
        with reading(self._engine) as connection:
            return tuple(connection.scalars(statement))

    def get_app(self, app: str) -> MailingApp | None:
        """Return *app* as its mails show it; None if there is no such app."""
        kept = small_apps.c
        statement = sa.select(kept.name, kept.timezone, kept.mail)
        with reading(self._engine) as connection:
            row = connection.execute(statement.where(kept.uid == app)).one_or_none()
        if row is None:
            return None
        return MailingApp(
            name=row.name,
            zone=load_zone(row.timezone or self._timezone),
            locale=(row.mail or {}).get("locale", ""),
            letterhead=make_letterhead(row.mail),
        )
