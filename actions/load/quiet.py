"""
When the database may be away, and which runs that costs at any other time. Pure.

While it is away nothing is recorded. What was due meanwhile runs late, once it is back;
what is older than the look-back by then is missed, unless ``catch_up`` lets it run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate

from actions.load.counting import LoadedMinute, NamedAction
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
    """Answers about the minutes from *since* to before *until*, aware UTC."""

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
