"""What is planned in a short time: each minute, and the actions that are due in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import sqlalchemy as sa

from actions.load.counting import Counting
from actions.load.foresee import (
    TIME,
    HotMinute,
    Whose,
    find_undecided,
    foresee,
    name_minutes,
)
from models.database.engine import read_clock
from models.errors import UsageError

#: The longest period, and the one unless the caller says otherwise.
LONGEST = timedelta(days=1)
DEFAULT_PERIOD = timedelta(hours=1)

#: Actions that are named, in all.
MOST = 200


@dataclass(frozen=True, slots=True)
class Planned:
    """
    What is planned.

    Args:
        since: Aware UTC, inclusive: not before what ticks have looked at.
        until: Aware UTC, exclusive.
        total: How many occurrences there are.
        minutes: In order, from the first on; the actions of each, MOST in all.
        is_whole: Whether *minutes* has all that there is.
    """

    since: datetime
    until: datetime
    total: int
    minutes: Sequence[HotMinute]
    is_whole: bool


def list_planned(
    connection: sa.Connection,
    whose: Whose,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Planned:
    """
    Return which actions are due when, in a short time to come.

    Args:
        whose: Of which app and queue.
        since: Aware; its minute is the first. None, or past: what no tick has decided.
        until: Aware, exclusive; at most LONGEST after *since*. None: DEFAULT_PERIOD
            after it.

    Raises:
        UsageError: The period is empty or too long.
    """
    now = read_clock(connection)
    asked = (since or now).astimezone(UTC).replace(second=0, microsecond=0)
    end = (until or asked + DEFAULT_PERIOD).astimezone(UTC)
    if not timedelta() < end - asked <= LONGEST:
        msg = (
            f"from {asked:%Y-%m-%d %H:%M}Z to {end:%Y-%m-%d %H:%M}Z is not a period of"
            " up to a day. Ask for another."
        )
        raise UsageError(msg)
    begin = max(asked, find_undecided(connection, now))
    if begin >= end:
        return Planned(asked, end, 0, [], is_whole=True)
    counting = Counting(begin, end, named=MOST)
    found = foresee(connection, counting, whose, before=end)
    minutes = counting.list_minutes()
    # The minute in which there is no more room for a name is the last.
    named = accumulate((each.total for each in minutes), initial=0)
    listed = [m for m, before in zip(minutes, named, strict=False) if before < MOST]
    total = counting.by_queue.total()
    return Planned(
        since=begin,
        until=end,
        total=total,
        minutes=name_minutes(connection, counting, listed, whose, most=MOST),
        is_whole=total <= MOST and not found.left_out[TIME],
    )
