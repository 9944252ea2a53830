"""Audit all actions; explaining/audit compares a single one with its records."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial

import sqlalchemy as sa

from actions.explaining.audit import (
    AuditFault,
    audit_action,
    audit_event_action,
    audit_following,
)
from actions.explaining.history import fetch_histories
from actions.lease import get_last_tick_at
from models.database.engine import read_clock, reading
from models.errors import UnreachableError
from models.occurrence import LONGEST_LOOKBACK
from models.operation import RecipientFilterModel
from operations.adapters.app_users import fetch_users
from operations.recipients import User, keeps_triggering_user

#: The default length of the audited period.
DEFAULT_PERIOD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Audit:
    """
    The result of an audit; times are aware UTC.

    Args:
        faults: One for each decision that is not as the rules say.
        audited: How many actions were compared.
        since: Inclusive.
        until: Exclusive; never later than *ticked_at*.
        ticked_at: The last tick; later occurrences are not decided yet.
        is_ahead: Whether the whole period lies after *ticked_at*, so that nothing was
            compared.
    """

    faults: tuple[AuditFault, ...]
    audited: int
    since: datetime
    until: datetime
    ticked_at: datetime
    is_ahead: bool


def audit_all(
    engine: sa.Engine,
    *,
    since: datetime | None,
    until: datetime | None,
    app: str | None,
    lookback: timedelta,
    at_most: timedelta | None = None,
) -> Audit:
    """
    Compare the recorded operations with the rules.

    Args:
        engine: Only read from, in several transactions.
        since: Aware, inclusive. None: DEFAULT_PERIOD before *until*.
        until: Aware, exclusive. None, or later than the last tick: the last tick.
        app: Uid of a small app. None: all of them.
        lookback: The look-back of the installation.
        at_most: How long it may take. None: as long as it takes.

    Raises:
        UnreachableError: It takes longer than *at_most*.
    """
    give_up_at = None if at_most is None else time.monotonic() + at_most.total_seconds()
    with reading(engine) as connection:
        now = read_clock(connection)
        ticked_at = get_last_tick_at(connection) or now
    end = ticked_at if until is None else min(until, ticked_at)
    begin = end - DEFAULT_PERIOD if since is None else since
    is_ahead = begin >= end
    if is_ahead:
        end = begin
    findings: list[AuditFault] = []
    longest = max(lookback, LONGEST_LOOKBACK)  # nobody recalls when ticks followed
    audited = 0
    keeps = _make_keeps(engine, now)
    for history in fetch_histories(engine, since=begin, until=end, app=app):
        audited += 1
        if give_up_at is not None and time.monotonic() > give_up_at:
            raise UnreachableError(
                "the audit takes too long to be waited for. Name an app, or a shorter"
                " period (minutehand audit takes as long as it takes)"
            )
        if history.is_of_time:
            findings += audit_action(history, since=begin, until=end, lookback=longest)
        if history.is_of_events:
            findings += audit_event_action(
                history, since=begin, until=end, keeps=partial(keeps, history.app)
            )
            findings += audit_following(history, since=begin, until=end)
    return Audit(tuple(findings), audited, begin, end, ticked_at, is_ahead)


def _make_keeps(engine: sa.Engine, now: datetime) -> Callable[..., bool]:
    """Return what tells whether, in an app, an action's recipients include a user."""

    # Actions come app by app, so it is enough to cache the users of one app.
    @lru_cache(maxsize=1)
    def fetch(app: str) -> dict[str, User]:
        with reading(engine) as connection:
            return {user.id: user for user in fetch_users(connection, app)}

    def keeps(app: str, who: RecipientFilterModel | None, user_id: str) -> bool:
        user = fetch(app).get(user_id)
        return user is not None and keeps_triggering_user(who, user, now=now)

    return keeps
