"""What is planned in a short time: each minute, and the actions that are due in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.leader import get_last_tick_at
from actions.load.counting import Counting
from actions.load.forecast import HotMinute, HotMinuteJson, LoadedMinute, name_minutes
from actions.load.foresee import TIME, Whose, find_undecided, foresee
from actions.lookup import find_filtered
from models.database.engine import read_clock
from models.errors import UsageError

#: The longest period, and the one unless the caller says otherwise.
LONGEST = timedelta(days=1)
DEFAULT_PERIOD = timedelta(hours=1)

#: Actions that are named, in all.
MOST = 200

#: How long foreseeing may take; what is left then is told.
PATIENCE = timedelta(seconds=2)

_MINUTE = timedelta(minutes=1)

PlannedJson = TypedDict(
    "PlannedJson",
    {
        "from": datetime,
        "until": datetime,
        "total": int,
        "minutes": list[HotMinuteJson],
        "is_whole": bool,
    },
)


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

    def as_json(self) -> PlannedJson:
        """Return the documented object; keys are only added."""
        return {
            "from": self.since,
            "until": self.until,
            "total": self.total,
            "minutes": [each.as_json() for each in self.minutes],
            "is_whole": self.is_whole,
        }


def list_planned(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    whose: Whose | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Planned:
    """
    Return which actions are due when, in a short time to come.

    Args:
        since: Aware; its minute is the first. None, or past: what no tick has decided.
        until: Aware, exclusive; at most LONGEST after *since*. None: DEFAULT_PERIOD
            after it.
        whose: Of which app and queue. None: all.
        monotonic: Returns seconds that never jump.

    Raises:
        NotFoundError: There is no such small app.
        UsageError: The period is empty or too long.
    """
    whose = whose or Whose()
    find_filtered(connection, app=whose.app, action=None)
    now = read_clock(connection)
    asked = (since or now).astimezone(UTC).replace(second=0, microsecond=0)
    end = (until or asked + DEFAULT_PERIOD).astimezone(UTC)
    if not timedelta() < end - asked <= LONGEST:
        msg = (
            f"from {asked:%Y-%m-%d %H:%M}Z to {end:%Y-%m-%d %H:%M}Z is not a period of"
            " up to a day. Ask for another."
        )
        raise UsageError(msg)
    begin = max(asked, find_undecided(now, get_last_tick_at(connection)))
    if begin >= end:
        return Planned(asked, end, 0, [], is_whole=True)
    deadline = monotonic() + PATIENCE.total_seconds()
    counting = Counting(begin, end, named=MOST)
    found = foresee(
        connection,
        counting,
        whose,
        before=end,
        is_over=lambda: monotonic() >= deadline,
    )
    listed: list[LoadedMinute] = []
    room = MOST
    for number, by_queue in counting.iterate_minutes():
        if room <= 0:
            break
        minute = LoadedMinute(begin + number * _MINUTE, by_queue)
        listed.append(minute)
        room -= minute.total
    return Planned(
        since=begin,
        until=end,
        total=sum(counting.by_queue.values()),
        minutes=name_minutes(connection, counting, listed, whose, most=MOST),
        is_whole=room >= 0
        and sum(each.total for each in listed) == sum(counting.by_queue.values())
        and not found.left_out[TIME],
    )
