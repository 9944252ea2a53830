"""
The load that is coming: how many occurrences each minute has, and who makes them.

Everything is foreseen from the rules of the actions that ticks look at now. Actions
with the same rule are counted together, so that 100,000 of them cost little more than
their different rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import nsmallest
from itertools import accumulate

import sqlalchemy as sa

from actions.load.counting import Counting, LoadedMinute, NamedAction
from actions.load.foresee import (
    TIME,
    HotMinute,
    Whose,
    count_others,
    foresee,
    name_minutes,
)
from actions.lookup import find_filtered
from models.database.engine import read_clock
from models.errors import UsageError
from models.fields.duration import read_elapsed
from models.fields.instants import format_instant
from models.occurrence import LOOKBACK
from models.units import format_age

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Away:
    """
    How the database is to be away.

    Args:
        length: For how long, positive; read in whole minutes, upwards.
        lookback: Of the installation.
        at: From when, aware; its minute counts. None: from the beginning of the period.
    """

    length: timedelta
    lookback: timedelta = LOOKBACK
    at: datetime | None = None


def read_away(
    quiet: str | None, at: datetime | None, lookback: timedelta
) -> Away | None:
    """
    Return what was asked for: *quiet* is an ISO 8601 duration. None: nothing was.

    Raises:
        UsageError: *quiet* cannot be read, or there is *at* without it.
    """
    if quiet is not None:
        return Away(read_elapsed("--quiet", quiet), lookback, at)
    if at is not None:
        msg = "--at needs --quiet, for how long the database is to be away: PT20M."
        raise UsageError(msg)
    return None


@dataclass(frozen=True, slots=True)
class QuietWindow:
    """A stretch in which nothing is due: aware UTC, *until* is exclusive."""

    from_: datetime = field(metadata={"serialization_alias": "from"})
    until: datetime


@dataclass(frozen=True, slots=True)
class Outage(QuietWindow):
    """
    What it costs that the database is away; times are aware UTC, *until* is exclusive.

    Args:
        late: How many occurrences run after it is back.
        missed: How many are older than the look-back by then.
        actions: Some of whose occurrences these are, the missed first.
    """

    late: int
    missed: int
    actions: Sequence[NamedAction] = ()


class Outlook:
    """
    Answers about the minutes from *since* to before *until*, aware UTC.

    While the database is away nothing is recorded. What was due meanwhile runs late,
    once it is back; what is older than the look-back by then is missed, unless
    ``catch_up`` lets it run.
    """

    def __init__(
        self, minutes: Sequence[LoadedMinute], since: datetime, until: datetime
    ) -> None:
        """Remember how many occurrences there are before each minute."""
        self._since, self._until = since, until
        self._size = (until - since) // _MINUTE
        totals: Mapping[datetime, int] = {each.at: each.total for each in minutes}
        self._busy = [self._number(at) for at in sorted(totals)]
        numbered = (totals.get(self._at(each), 0) for each in range(self._size))
        self._before = list(accumulate(numbered, initial=0))

    def find_windows(self, away: Away) -> Iterator[QuietWindow]:
        """Yield each stretch without occurrences that is long enough, as a whole."""
        length, begin = self._measure(away), 0
        for busy in (*self._busy, self._size):
            if busy - begin >= length:
                yield QuietWindow(self._at(begin), self._at(busy))
            begin = busy + 1

    def price(self, away: Away) -> Outage:
        """
        Return what it costs from ``away.at`` on.

        Raises:
            UsageError: It begins before the period or ends after it.
        """
        begin = 0 if away.at is None else self._number(away.at)
        length = self._measure(away)
        if not 0 <= begin <= self._size - length:
            raise UsageError(
                f"--at: {format_age(length * _MINUTE)} from"
                f" {format_instant(self._at(begin))} are not within"
                f" {format_instant(self._since)} and {format_instant(self._until)}."
            )
        return self._price(begin, away)

    def find_cheapest(self, away: Away) -> Outage:
        """Return the outage that misses fewest, then delays fewest, then is first."""
        starts = range(self._size - self._measure(away) + 1)
        priced = (self._price(begin, away) for begin in starts)
        return min(priced, key=lambda each: (each.missed, each.late))

    def _measure(self, away: Away) -> int:
        """Return how many minutes it is away."""
        length = -(-away.length // _MINUTE)
        if not 0 < length <= self._size:
            period = format_age(self._until - self._since)
            msg = f"--quiet: write a duration from PT1M to that of the period, {period}"
            raise UsageError(msg)
        return length

    def _price(self, begin: int, away: Away) -> Outage:
        end = begin + self._measure(away)
        # Schedulers look again each second, so a tick comes as soon as it is back. Of a
        # minute whose first second is too old for it, all may be.
        old = end + -away.lookback // _MINUTE
        since_old = max(begin, min(old + 1, end))
        missed = self._before[since_old] - self._before[begin]
        late = self._before[end] - self._before[since_old]
        return Outage(self._at(begin), self._at(end), late, missed)

    def _number(self, at: datetime) -> int:
        return (at - self._since) // _MINUTE

    def _at(self, number: int) -> datetime:
        return self._since + number * _MINUTE


#: The longest period, and the one if no end is given.
LONGEST = timedelta(days=7)
DEFAULT_PERIOD = timedelta(days=1)

#: How long an absence of the database is looked for unless somebody says it.
QUIET = timedelta(minutes=20)

#: How long that may be counted: nobody is told of a window before all are counted.
QUIET_PATIENCE = timedelta(seconds=5)

#: Minutes with the most occurrences, and actions that are named for each.
HOT_MINUTES = 20
NAMED = 5


@dataclass(frozen=True, slots=True)
class AppLoad:
    """What one small app is going to do."""

    app: str
    total: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """
    When the database may be away, as far as the rules say.

    Args:
        windows: In which nothing is due, in order, each as long as it is.
        cheapest: What costs least if there is no window.
        outage: What it costs at the time that was asked for.
    """

    windows: Sequence[QuietWindow]
    cheapest: Outage | None
    outage: Outage


@dataclass(frozen=True, slots=True)
class Load:
    """
    What is coming.

    Args:
        from_: Aware UTC, inclusive, at the beginning of a minute.
        until: Aware UTC, exclusive.
        actions: How many actions were counted.
        left_out: How many were not, by the reason: ``events`` drive them, they are
            ``paused``, their rule is ``unreadable``, or there was no ``time`` left.
        is_partial: Whether there was no time to count all.
        total: How many occurrences in all.
        by_app: The small app with the most first.
        minutes: Those with an occurrence, in order.
        hot: Those with the most occurrences, the hottest first.
        quiet: None: it was not asked for, or cannot be told, for this is partial.
    """

    from_: datetime = field(metadata={"serialization_alias": "from"})
    until: datetime
    actions: int
    left_out: Mapping[str, int]
    is_partial: bool
    total: int
    by_queue: Mapping[str, int]
    by_app: Sequence[AppLoad]
    minutes: Sequence[LoadedMinute]
    hot: Sequence[HotMinute]
    quiet: Quiet | None = None

    def has_all(self, since: datetime, until: datetime) -> bool:
        """Return whether all from *since* to before *until* was counted."""
        return not self.is_partial and self.from_ <= since and until <= self.until


def forecast_load(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    app: str | None = None,
    away: Away | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Load:
    """
    Return how many occurrences are coming in each minute.

    Args:
        since: Aware; its minute is the first. None: now.
        until: Aware, exclusive; at most LONGEST after *since*. None: DEFAULT_PERIOD
            after it, or LONGEST if *away* is given.
        app: Uid of the only small app that counts. None: all.
        away: Look also for when the database may be away.
        monotonic: Returns seconds that never jump.

    Raises:
        NotFoundError: There is no such small app.
        UsageError: The period is empty or too long, or *away* does not fit into it.
    """
    find_filtered(connection, app=app, action=None)
    now = read_clock(connection).replace(second=0, microsecond=0)
    begin = (since or now).replace(second=0, microsecond=0)
    end = until or begin + (DEFAULT_PERIOD if away is None else LONGEST)
    _refuse_period(begin, end)
    whose = Whose(app)
    # What is past may be decided already.
    before = end if begin >= now else None
    counting = Counting(begin, end, named=NAMED)
    found = foresee(
        connection,
        counting,
        whose,
        before=before,
        patience=None if away is None else QUIET_PATIENCE,
        monotonic=monotonic,
    )
    later, others = count_others(connection, whose, before)
    left_out = found.left_out + others
    is_partial = TIME in left_out
    minutes = counting.list_minutes()
    quiet = None
    if away is not None and not is_partial:
        quiet = _find_quiet(connection, counting, minutes, whose, away)
    hottest = nsmallest(HOT_MINUTES, minutes, key=lambda each: (-each.total, each.at))
    return Load(
        from_=begin,
        until=end,
        actions=found.actions + later,
        left_out=left_out,
        is_partial=is_partial,
        total=counting.by_queue.total(),
        by_queue=dict(sorted(counting.by_queue.items())),
        by_app=[AppLoad(*each) for each in counting.by_app.most_common()],
        minutes=minutes,
        hot=name_minutes(connection, counting, hottest, whose, most=NAMED),
        quiet=quiet,
    )


def _find_quiet(
    connection: sa.Connection,
    counting: Counting,
    minutes: Sequence[LoadedMinute],
    whose: Whose,
    away: Away,
) -> Quiet:
    def name(outage: Outage) -> Outage:
        during = [each for each in minutes if outage.from_ <= each.at < outage.until]
        few = during[:HOT_MINUTES]
        named = name_minutes(connection, counting, few, whose, most=NAMED)
        actions = dict.fromkeys(action for each in named for action in each.actions)
        return replace(outage, actions=list(actions)[:HOT_MINUTES])

    outlook = Outlook(minutes, counting.since, counting.until)
    windows = list(outlook.find_windows(away))
    cheapest = None if windows else name(outlook.find_cheapest(away))
    return Quiet(windows, cheapest, name(outlook.price(away)))


def _refuse_period(since: datetime, until: datetime) -> None:
    if until <= since:
        raise UsageError(
            f"--from ({format_instant(since)}) is not before --until"
            f" ({format_instant(until)}), so nothing lies between them."
        )
    if until - since > LONGEST:
        raise UsageError(
            f"from {format_instant(since)} to {format_instant(until)} are more than"
            f" {LONGEST.days} days. Ask for a shorter period."
        )
