"""
Who gets a mail: the recipients filter applied to the users of a small app. Pure.

docs/recipients.md has the truth table; a test compares the two, and another one this
with its twin in SQL, models/database/recipient_filter.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from models.operation import EVERYONE, RecipientFilterModel, Standing


@dataclass(frozen=True, slots=True)
class User:
    """
    A member of a small app, as the directory knows them.

    Args:
        id: Unique in the small app.
        email: Where mails go; may be empty.
        name: For templates; may be empty.
        locale: A language tag such as "fr-CH", for templates; may be empty.
        groups: The groups of this small app the user is in. ``all`` is never listed.
        disabled: Switched off by an admin.
        expires_at: Aware UTC; from this instant on the account is inactive.
            None: never.
        created_at: Aware UTC.
        activated_at: When the user set a password. None: not yet.
        last_seen_at: Aware UTC. None: never. No filter looks at it.
    """

    id: str
    email: str
    name: str = ""
    locale: str = ""
    groups: frozenset[str] = frozenset()
    disabled: bool = False
    expires_at: datetime | None = None
    created_at: datetime | None = None
    activated_at: datetime | None = None
    last_seen_at: datetime | None = None

    def is_inactive(self, *, now: datetime) -> bool:
        """Return whether the account is disabled or has expired at *now* (aware)."""
        return self.disabled or (self.expires_at is not None and self.expires_at <= now)


@dataclass(frozen=True, slots=True)
class Resolution:
    """
    The outcome of a filter.

    Args:
        users: Each once, ordered by id, so that a retry goes the same way.
        warnings: One sentence for each user or group that does not exist, and if nobody
            is asked for, or there.
    """

    users: tuple[User, ...]
    warnings: tuple[str, ...] = ()


#: Those who get the mails.
INSIDE = frozenset({Standing.NAMED, Standing.IN_GROUP, Standing.TRIGGERS})


def judge(
    who: RecipientFilterModel | None, user: User, *, now: datetime, on_event: bool
) -> Standing:
    """
    Return why *user* gets the mails of an action, or does not.

    Args:
        who: The filter of the action: by id, by address or by group. One that names
            nobody is for nobody; on event actions, for every user whom its flags keep.
        user: Of its small app.
        now: Aware; an account that expires at this very instant is inactive.
        on_event: Whether an event of the user triggers the action. Then those who are
            inside get its mails only if that happens.
    """
    if who is None:
        if not on_event:
            return Standing.NOBODY
        inactive = user.is_inactive(now=now)
        return Standing.INACTIVE if inactive else Standing.TRIGGERS
    if on_event and not (who.users or who.groups):
        inside = Standing.TRIGGERS
    elif user.id in who.users or user.email in who.users:
        inside = Standing.NAMED
    elif EVERYONE in who.groups or not user.groups.isdisjoint(who.groups):
        inside = Standing.IN_GROUP
    else:
        return Standing.NOT_NAMED
    return _find_flag(who, user, now) or inside


def _find_flag(who: RecipientFilterModel, user: User, now: datetime) -> Standing | None:
    """
    Return by which flag of *who*, or its lack, *user* is dropped; None: by none.

    Step one drops each category unless its include or only flag is set. Step two:
    with any only flag, a user must be in at least one category flagged only.
    """
    inactive, inactivated = user.is_inactive(now=now), user.activated_at is None
    only_inactive = who.only_inactive_users
    only_inactivated = who.only_inactivated_users
    if inactive and not (who.include_inactive_users or only_inactive):
        return Standing.INACTIVE
    if inactivated and not (who.include_inactivated_users or only_inactivated):
        return Standing.INACTIVATED
    is_only = (only_inactive and inactive) or (only_inactivated and inactivated)
    if (only_inactive or only_inactivated) and not is_only:
        return Standing.NOT_ONLY
    return None


def keeps_triggering_user(
    who: RecipientFilterModel | None, user: User, *, now: datetime
) -> bool:
    """
    Return whether an event of *user* makes an operation: on event actions
    recipients are a filter on the triggering user.

    Args:
        who: None keeps the user, whatever the state of their account.
        user: The triggering user.
        now: Aware.
    """
    return who is None or judge(who, user, now=now, on_event=True) in INSIDE


def resolve(
    who: RecipientFilterModel | None,
    users: Iterable[User],
    *,
    now: datetime,
    triggering: str | None = None,
) -> Resolution:
    """
    Return the users who get the mails of an operation.

    Args:
        who: None selects nobody, or the triggering user, unless their account is
            disabled or expired.
        users: Every user of the small app, in any order.
        now: Aware.
        triggering: Id of the user whose event made the operation: nobody else gets a
            mail. None: no event did.
    """
    everybody = sorted(users, key=lambda user: user.id)
    on_event = triggering is not None
    asked = [user for user in everybody if triggering in {None, user.id}]
    kept = [
        user for user in asked if judge(who, user, now=now, on_event=on_event) in INSIDE
    ]
    warnings = _find_unknown(who, everybody) if who is not None else []
    if who is None and not on_event:
        warnings = ["The action names no recipients."]
    elif on_event and not asked:
        warnings.append(f"The triggering user {triggering!r} does not exist any more.")
    elif who is None and not kept:
        closed = f"The account of the triggering user {triggering!r} is not active."
        warnings.append(closed)
    return Resolution(tuple(kept), tuple(warnings))


def _find_unknown(who: RecipientFilterModel, users: Sequence[User]) -> list[str]:
    known = {user.id for user in users} | {user.email for user in users}
    groups = {EVERYONE}.union(*(user.groups for user in users))
    return [
        *(
            f"There is no user {user_id!r} in this small app."
            for user_id in dict.fromkeys(who.users)
            if user_id not in known
        ),
        *(
            f"There is no group {group!r} in this small app, or nobody is in it."
            for group in dict.fromkeys(who.groups)
            if group not in groups
        ),
    ]
