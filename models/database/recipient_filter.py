"""
The filter of recipients in SQL, since an app may have a hundred thousand users.

It says the same as operations/recipients.py; a test compares the two.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from models.database.tables import memberships, users
from models.operation import EVERYONE, RecipientFilterModel, Standing


def select_standing(
    who: RecipientFilterModel, now: datetime
) -> sa.ColumnElement[str | None]:
    """Select why *who* leaves out a user whom it names; null: it does not."""
    kept = users.c
    inactive = sa.or_(
        kept.disabled, sa.and_(kept.expires_at.is_not(None), kept.expires_at <= now)
    )
    inactivated = kept.activated_at.is_(None)
    cases: list[tuple[sa.ColumnElement[bool], Standing]] = []
    if not (who.include_inactive_users or who.only_inactive_users):
        cases.append((inactive, Standing.INACTIVE))
    if not (who.include_inactivated_users or who.only_inactivated_users):
        cases.append((inactivated, Standing.INACTIVATED))
    only = [inactive] * who.only_inactive_users
    only += [inactivated] * who.only_inactivated_users
    if only:
        cases.append((sa.not_(sa.or_(*only)), Standing.NOT_ONLY))
    if not cases:
        return sa.cast(sa.null(), sa.Text)
    return sa.case(*((when, each.value) for when, each in cases), else_=sa.null())


def are_addressed(
    who: RecipientFilterModel, *, on_event: bool
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of the users whom *who* names."""
    kept = users.c
    is_for_any = on_event and not (who.users or who.groups)
    if is_for_any or EVERYONE in who.groups:
        return []
    is_member = sa.exists().where(
        memberships.c.app == kept.app,
        memberships.c.user_id == kept.id,
        memberships.c.group_name.in_(who.groups),
    )
    # With groups alone PostgreSQL can join; with an OR, even of nothing, it looks up
    # each user.
    is_named = [kept.id.in_(who.users), kept.email.in_(who.users)]
    return [sa.or_(is_member, *(is_named if who.users else ()))]
