"""
Who gets a mail: the recipients filter applied to the users of a small app. Pure.

docs/recipients.md has the truth table; a test compares the two, and another one this
with its twin in SQL, models/database/recipient_filter.py.
"""

from __future__ import annotations

from collections.abc import Iterable
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

    @property
    def is_inactivated(self) -> bool:
        """Whether the user never activated the account."""
        return self.activated_at is None


@dataclass(frozen=True, slots=True)
class Resolution:
    """
    The outcome of a filter.

    Args:
        users: Each once, ordered by id, so that a retry goes the same way.
        warnings: One sentence for each user or group that does not exist.
    """

    users: tuple[User, ...]
    warnings: tuple[str, ...] = ()


def is_kept(who: RecipientFilterModel, user: User, *, now: datetime) -> bool:
    """
    Return whether the four flags of *who* keep *user*, whether named or not.

    Step one drops each category unless its include or only flag is set. Step two:
    with any only flag, a user must be in at least one category flagged only.

    Args:
        user: Anybody.
        now: Aware; an account that expires at this very instant is inactive.
    """
    return _find_flag(who, user, now) is None


def _find_flag(who: RecipientFilterModel, user: User, now: datetime) -> Standing | None:
    """Return by which flag of *who*, or its lack, *user* is dropped; None: by none."""
    inactive, inactivated = user.is_inactive(now=now), user.is_inactivated
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


def is_addressed(who: RecipientFilterModel, user: User) -> bool:
    """
    Return whether *who* names *user*, by id, by address or by one of their groups.

    A filter that names nobody addresses nobody; see :func:`keeps_triggering_user`
    for event actions, where naming nobody means everyone.
    """
    return (
        user.id in who.users
        or user.email in who.users
        or EVERYONE in who.groups
        or not user.groups.isdisjoint(who.groups)
    )


#: Those who get the mails.
INSIDE = frozenset({Standing.NAMED, Standing.IN_GROUP, Standing.TRIGGERS})


def judge(
    who: RecipientFilterModel | None, user: User, *, now: datetime, on_event: bool
) -> Standing:
    """
    Return why *user* gets the mails of an action, or does not.

    Args:
        who: The filter of the action.
        user: Of its small app.
        now: Aware.
        on_event: Whether an event of the user triggers the action. Then those who are
            inside get its mails only if that happens.
    """
    if who is None:
        if not on_event:
            return Standing.NOBODY
        inactive = user.is_inactive(now=now)
        return Standing.INACTIVE if inactive else Standing.TRIGGERS
    is_for_any = on_event and not (who.users or who.groups)
    if not is_for_any and not is_addressed(who, user):
        return Standing.NOT_NAMED
    is_named = user.id in who.users or user.email in who.users
    inside = Standing.NAMED if is_named else Standing.IN_GROUP
    kept = Standing.TRIGGERS if is_for_any else inside
    return _find_flag(who, user, now) or kept


def keeps_triggering_user(
    who: RecipientFilterModel | None, user: User, *, now: datetime
) -> bool:
    """
    Return whether an event of *user* makes an operation: on event actions
    recipients are a filter on the triggering user.

    Args:
        who: None keeps the user, whatever the state of their account. A filter without
            users and groups applies its flags to every user.
        user: The triggering user.
        now: Aware.
    """
    if who is None:
        return True
    is_for_any = not (who.users or who.groups)
    return (is_for_any or is_addressed(who, user)) and is_kept(who, user, now=now)


def resolve(
    who: RecipientFilterModel | None, users: Iterable[User], *, now: datetime
) -> Resolution:
    """
    Return the users that *who* selects, for an action that no user triggered.

    Args:
        who: None selects nobody.
        users: Every user of the small app, in any order.
        now: Aware.

    Returns:
        Each user once, ordered by id, and a warning for each unknown name.
    """
    if who is None:
        return Resolution(users=())

    everybody = tuple(users)
    chosen = {
        user.id: user
        for user in everybody
        if is_addressed(who, user) and is_kept(who, user, now=now)
    }
    return Resolution(
        users=tuple(chosen[user_id] for user_id in sorted(chosen)),
        warnings=_find_unknown(who, everybody),
    )


def resolve_triggering_user(
    who: RecipientFilterModel | None,
    users: Iterable[User],
    user_id: str,
    *,
    now: datetime,
) -> Resolution:
    """
    Return the triggering user of an event operation, if *who* keeps them.

    Args:
        who: None keeps the user, unless their account is disabled or expired.
        users: Every user of the small app, in any order.
        user_id: The triggering user; if the user was deleted, there is a warning.
        now: Aware.
    """
    everybody = tuple(users)
    warnings = () if who is None else _find_unknown(who, everybody)
    found = [user for user in everybody if user.id == user_id]
    if not found:
        gone = f"The triggering user {user_id!r} does not exist any more."
        return Resolution(users=(), warnings=(*warnings, gone))

    if who is None and found[0].is_inactive(now=now):
        closed = f"The account of the triggering user {user_id!r} is not active."
        return Resolution(users=(), warnings=(closed,))

    kept = tuple(u for u in found if keeps_triggering_user(who, u, now=now))
    return Resolution(users=kept, warnings=warnings)


def _find_unknown(
    who: RecipientFilterModel, users: tuple[User, ...]
) -> tuple[str, ...]:
    known = {user.id for user in users} | {user.email for user in users}
    groups = {EVERYONE}.union(*(user.groups for user in users))
    unknown_users = [
        f"There is no user {user_id!r} in this small app."
        for user_id in dict.fromkeys(who.users)
        if user_id not in known
    ]
    unknown_groups = [
        f"There is no group {group!r} in this small app, or nobody is in it."
        for group in dict.fromkeys(who.groups)
        if group not in groups
    ]
    return (*unknown_users, *unknown_groups)
