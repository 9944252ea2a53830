"""
The load that is coming: how many occurrences each minute has, and who makes them.

Everything is foreseen from the rules of the actions that ticks look at now. Actions
with the same rule are counted together, so that 100,000 of them cost little more than
their different rules.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nsmallest

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.load.counting import Counting
from actions.load.foresee import (
    TIME,
    NamedAction,
    Whose,
    count_others,
    foresee,
    name_actions,
)
from actions.lookup import find_filtered
from models.database.engine import read_clock
from models.errors import UsageError
from models.fields.instants import format_instant

#: The longest period, and the one if no end is given.
LONGEST = timedelta(days=7)
DEFAULT_PERIOD = timedelta(days=1)

#: Minutes with the most occurrences, and actions that are named for each.
HOT_MINUTES = 20
NAMED = 5

#: How long the computation may take; what is left then is told.
PATIENCE = timedelta(seconds=2)

_MINUTE = timedelta(minutes=1)


class LoadedMinuteJson(TypedDict):
    """The occurrences of one minute."""

    at: datetime
    total: int
    by_queue: dict[str, int]


class LoadingActionJson(TypedDict):
    """An action that is due in a hot minute."""

    uid: str
    app: str
    name: str


class HotMinuteJson(TypedDict):
    """A minute with many occurrences, and who makes them."""

    at: datetime
    total: int
    by_queue: dict[str, int]
    by_app: dict[str, int]
    actions: list[LoadingActionJson]


class AppLoadJson(TypedDict):
    """What one small app is going to do."""

    app: str
    total: int


LoadJson = TypedDict(
    "LoadJson",
    {
        "from": datetime,
        "until": datetime,
        "actions": int,
        "left_out": dict[str, int],
        "is_partial": bool,
        "total": int,
        "by_queue": dict[str, int],
        "by_app": list[AppLoadJson],
        "minutes": list[LoadedMinuteJson],
        "hot": list[HotMinuteJson],
    },
)


@dataclass(frozen=True, slots=True)
class LoadedMinute:
    """
    The occurrences of one minute.

    Args:
        at: When the minute begins, aware UTC.
        by_queue: How many are sent to each queue.
    """

    at: datetime
    by_queue: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many in all."""
        return sum(self.by_queue.values())

    def as_json(self) -> LoadedMinuteJson:
        """Return the documented object; keys are only added."""
        return {"at": self.at, "total": self.total, "by_queue": dict(self.by_queue)}


@dataclass(frozen=True, slots=True)
class HotMinute:
    """
    A minute with many occurrences.

    Args:
        by_app: How many each small app has, the most first.
        actions: Some of those that are due then, at most NAMED.
    """

    minute: LoadedMinute
    by_app: Mapping[str, int]
    actions: Sequence[NamedAction]

    def as_json(self) -> HotMinuteJson:
        """Return the documented object; keys are only added."""
        return {
            **self.minute.as_json(),
            "by_app": dict(self.by_app),
            "actions": [
                {"uid": each.uid, "app": each.app, "name": each.name}
                for each in self.actions
            ],
        }


@dataclass(frozen=True, slots=True)
class Load:
    """
    What is coming.

    Args:
        since: Aware UTC, inclusive, at the beginning of a minute.
        until: Aware UTC, exclusive.
        actions: How many actions were counted.
        left_out: How many were not, by the reason: ``events`` drive them, they are
            ``paused``, their rule is ``unreadable``, or there was no ``time`` left.
        by_app: The small app with the most first.
        minutes: Those with an occurrence, in order.
        hot: At most HOT_MINUTES, the hottest first.
    """

    since: datetime
    until: datetime
    actions: int
    left_out: Mapping[str, int]
    by_queue: Mapping[str, int]
    by_app: Mapping[str, int]
    minutes: Sequence[LoadedMinute]
    hot: Sequence[HotMinute]

    @property
    def is_partial(self) -> bool:
        """Whether there was no time to count all."""
        return TIME in self.left_out

    def has_all(self, since: datetime, until: datetime) -> bool:
        """Return whether all from *since* to before *until* was counted."""
        return not self.is_partial and self.since <= since and until <= self.until

    @property
    def total(self) -> int:
        """How many occurrences in all."""
        return sum(self.by_queue.values())

    def as_json(self) -> LoadJson:
        """Return the documented object; keys are only added."""
        return {
            "from": self.since,
            "until": self.until,
            "actions": self.actions,
            "left_out": dict(self.left_out),
            "is_partial": self.is_partial,
            "total": self.total,
            "by_queue": dict(self.by_queue),
            "by_app": [
                {"app": app, "total": total} for app, total in self.by_app.items()
            ],
            "minutes": [each.as_json() for each in self.minutes],
            "hot": [each.as_json() for each in self.hot],
        }


def forecast_load(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    app: str | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Load:
    """
    Return how many occurrences are coming in each minute.

    Args:
        since: Aware; its minute is the first. None: now.
        until: Aware, exclusive; at most LONGEST after *since*. None: DEFAULT_PERIOD
            after it.
        app: Uid of the only small app that counts. None: all.
        monotonic: Returns seconds that never jump.

    Raises:
        NotFoundError: There is no such small app.
        UsageError: The period is empty or too long.
    """
    find_filtered(connection, app=app, action=None)
    now = read_clock(connection).replace(second=0, microsecond=0)
    begin = (since or now).replace(second=0, microsecond=0)
    end = until or begin + DEFAULT_PERIOD
    _refuse_period(begin, end)
    deadline = monotonic() + PATIENCE.total_seconds()
    whose = Whose(app)
    # What is past may be decided already.
    before = end if begin >= now else None
    found = foresee(
        connection,
        Counting(begin, end, named=NAMED),
        whose,
        before=before,
        is_over=lambda: monotonic() >= deadline,
    )
    later, others = count_others(connection, whose, before)
    counting = found.counting
    minutes = [
        LoadedMinute(begin + number * _MINUTE, counts)
        for number, counts in counting.iterate_minutes()
    ]
    return Load(
        since=begin,
        until=end,
        actions=found.actions + later,
        left_out=found.left_out + others,
        by_queue=dict(sorted(counting.by_queue.items())),
        by_app=dict(counting.by_app.most_common()),
        minutes=minutes,
        hot=name_minutes(
            connection,
            counting,
            nsmallest(HOT_MINUTES, minutes, key=lambda each: (-each.total, each.at)),
            whose,
            most=NAMED,
        ),
    )


def name_minutes(
    connection: sa.Connection,
    counting: Counting,
    minutes: Sequence[LoadedMinute],
    whose: Whose,
    *,
    most: int,
) -> list[HotMinute]:
    """Return some minutes with whose occurrences they have, and *most* actions each."""
    found = counting.find_shares([counting.number(each.at) for each in minutes])
    shares = list(found.values())
    named = name_actions(connection, shares, whose, most=most)
    hot = []
    for minute, found_there, actions in zip(minutes, shares, named, strict=True):
        by_app: Counter[str] = Counter()
        for share in found_there:
            by_app[share.group.app] += share.count
        hot.append(HotMinute(minute, dict(by_app.most_common()), actions))
    return hot


def _refuse_period(since: datetime, until: datetime) -> None:
    if until <= since:
        msg = (
            f"--from ({format_instant(since)}) is not before --until"
            f" ({format_instant(until)}), so nothing lies between them."
        )
        raise UsageError(msg)
    if until - since > LONGEST:
        msg = (
            f"from {format_instant(since)} to {format_instant(until)} are more than"
            f" {LONGEST.days} days. Ask for a shorter period."
        )
        raise UsageError(msg)
