"""Users, memberships and templates of small apps, from the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from models.database.engine import reading
from models.database.tables import memberships, small_apps, templates, users
from models.recipients import EVERYONE, RecipientFilterModel
from operations.mail.message import Template
from operations.recipients import User


def fetch_users(
    connection: sa.Connection, app: str, ids: Collection[str] | None = None
) -> tuple[User, ...]:
    """Return the users *ids* of *app* (None: all) with their groups, ordered by id."""
    query = sa.select(users).where(users.c.app == app).order_by(users.c.id)
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
        User(
            id=row.id,
            email=row.email,
            name=row.name or "",
            locale=row.locale or "",
            groups=frozenset(groups[row.id]),
            disabled=row.disabled,
            expires_at=row.expires_at,
            created_at=row.created_at,
            activated_at=row.activated_at,
            last_seen_at=row.last_seen_at,
        )
        for row in connection.execute(query)
    )


def fetch_users_after(
    connection: sa.Connection, app: str, after: str | None, *, limit: int
) -> tuple[User, ...]:
    """Return the first *limit* users of *app* whose ids come after *after*, by id."""
    query = sa.select(users.c.id).where(users.c.app == app)
    if after is not None:
        query = query.where(users.c.id > after)
    ids = connection.execute(query.order_by(users.c.id).limit(limit)).scalars().all()
    return fetch_users(connection, app, ids)


def count_recipients(
    connection: sa.Connection,
    app: str,
    who: RecipientFilterModel,
    *,
    now: datetime,
    on_event: bool = False,
) -> int:
    """
    Return how many users of *app* are inside a filter, as ``recipients.judge`` has it.

    It says the same in SQL, since an app may have a hundred thousand users; a test
    compares the two.

    Args:
        connection: Any.

        app: Uid of a small app.

        who: The filter.

        now: Aware.

        on_event: As for ``judge``.
    """
    kept = users.c
    inactive = sa.or_(
        kept.disabled, sa.and_(kept.expires_at.is_not(None), kept.expires_at <= now)
    )
    inactivated = kept.activated_at.is_(None)
    conditions: list[sa.ColumnElement[bool]] = [kept.app == app]
    if not (who.include_inactive_users or who.only_inactive_users):
        conditions.append(~inactive)
    if not (who.include_inactivated_users or who.only_inactivated_users):
        conditions.append(~inactivated)
    only = [inactive] * who.only_inactive_users
    only += [inactivated] * who.only_inactivated_users
    if only:
        conditions.append(sa.or_(*only))
    is_for_any = on_event and not (who.users or who.groups)
    if not is_for_any and EVERYONE not in who.groups:
        is_member = sa.exists().where(
            memberships.c.app == kept.app,
            memberships.c.user_id == kept.id,
            memberships.c.group_name.in_(who.groups),
        )
        # With groups alone PostgreSQL can join; with an OR, even of nothing, it looks
        # up each user.
        is_named = [kept.id.in_(who.users), kept.email.in_(who.users)]
        conditions.append(sa.or_(is_member, *(is_named if who.users else ())))
    count = sa.select(sa.func.count()).select_from(users).where(*conditions)
    return connection.execute(count).scalar_one()


class RealDirectory:
    """Implements :class:`operations.ports.Directory`."""

    def __init__(self, engine: sa.Engine) -> None:
        """Take the engine of the worker's own process."""
        self._engine = engine

    def fetch_users(self, app: str) -> tuple[User, ...]:
        """Return every user of *app* with their groups, ordered by id."""
        with reading(self._engine) as connection:
            return fetch_users(connection, app)

    def get_template(self, app: str, name: str) -> Template | None:
        """Return the template *name* of *app*."""
        statement = sa.select(templates).where(
            templates.c.app == app, templates.c.name == name
        )
        with reading(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        if row is None:
            return None
        return Template(
            name=row.name, subject=row.subject, text=row.text, html=row.html
        )

    def fetch_template_names(self, app: str) -> tuple[str, ...]:
        """Return the names of all templates of *app*, for messages."""
        statement = (
            sa.select(templates.c.name)
            .where(templates.c.app == app)
            .order_by(templates.c.name)
        )
        with reading(self._engine) as connection:
            return tuple(connection.execute(statement).scalars())

    def get_app_name(self, app: str) -> str | None:
        """Return the name of *app* for people; None if there is no such app."""
        statement = sa.select(small_apps.c.name).where(small_apps.c.uid == app)
        with reading(self._engine) as connection:
            return connection.execute(statement).scalar_one_or_none()
