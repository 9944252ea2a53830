"""
What others say about when a cron rule is due, to hold our answers against.

Nothing here uses our own code: the fields are read anew, the clock changes are
found anew, and Debian's daemon is played minute by minute.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from cronsim import CronSim

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MINUTE = timedelta(minutes=1)
_HALF_DAY = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a zone's clocks: at this instant, from one offset to another."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def shift(self) -> timedelta:
        """How far the clocks jump; negative is back."""
        return self.after - self.before


def read_zone_bytes(name: str) -> bytes:
    """Return the compiled zone of the tzdata package."""
    return resources.files("tzdata").joinpath(f"zoneinfo/{name}").read_bytes()


@cache
def get_distinct_zones() -> tuple[str, ...]:
    """
    Return one name of each zone whose clocks ever differ from the others'.

    Half of all names are aliases: the same bytes under another name.
    """
    names = resources.files("tzdata").joinpath("zones").read_text("utf-8").split()
    by_content: dict[bytes, str] = {}
    for name in sorted(names):
        digest = hashlib.sha256(read_zone_bytes(name)).digest()
        by_content.setdefault(digest, name)
    return tuple(name for name in by_content.values() if name != "Factory")


def read_listed_transitions(name: str) -> list[Transition]:
    """Return the changes of offset that the zone's file (RFC 9636) lists."""
    data = read_zone_bytes(name)

    def counts(at: int) -> tuple[int, ...]:
        return struct.unpack(">20x6l", data[at : at + 44])

    utc, wall, leaps, times, types, letters = counts(0)
    at = 44 + times * 5 + types * 6 + letters + leaps * 8 + wall + utc
    _, _, _, times, types, _ = counts(at)
    at += 44
    instants = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    at += 9 * times
    offsets = [
        timedelta(seconds=struct.unpack(">l", data[at + 6 * i : at + 6 * i + 4])[0])
        for i in range(types)
    ]
    found = []
    before = offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != before:
            when = EPOCH + timedelta(seconds=instant)
            found.append(Transition(when, before, offsets[kind]))
        before = offsets[kind]
    return found


def find_transitions(
    zone: ZoneInfo, start: datetime, end: datetime
) -> list[Transition]:
    """Return the changes of offset in ``(start, end]``; looks twice a day."""

    def offset_at(instant: datetime) -> timedelta:
        return instant.astimezone(zone).utcoffset() or timedelta()

    found = []
    here, offset = start, offset_at(start)
    while here < end:
        there = min(here + _HALF_DAY, end)
        after = offset_at(there)
        if after != offset:
            low, high = 0, int((there - here).total_seconds())
            while high - low > 1:
                middle = (low + high) // 2
                if offset_at(here + timedelta(seconds=middle)) == offset:
                    low = middle
                else:
                    high = middle
            found.append(Transition(here + timedelta(seconds=high), offset, after))
        here, offset = there, after
    return found


@dataclass(frozen=True, slots=True)
class PlainRule:
    """Five fields of numbers, ranges, lists and steps, read as crontab(5) says."""

    sets: tuple[frozenset[int], ...]
    stars: tuple[bool, ...]

    @classmethod
    def read(cls, text: str) -> PlainRule:
        """Read *text*, which has no names and no extensions."""
        fields = text.split()
        bounds = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
        return cls(
            tuple(map(_read_field, fields, bounds)),
            tuple(field.startswith("*") for field in fields),
        )

    @property
    def is_wild(self) -> bool:
        """Whether the daemon files it under wildcard jobs."""
        return self.stars[0] or self.stars[1]

    def suits(self, local: datetime) -> bool:
        """Whether *local* (naive) is a time the fields ask for."""
        minutes, hours, days, months, weekdays = self.sets
        if (
            local.minute not in minutes
            or local.hour not in hours
            or local.month not in months
        ):
            return False
        by_day = local.day in days
        by_weekday = bool({local.isoweekday(), local.isoweekday() % 7} & weekdays)
        if self.stars[2] or self.stars[4]:
            return by_day and by_weekday
        return by_day or by_weekday


def _read_field(field: str, bounds: tuple[int, int]) -> frozenset[int]:
    values: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        low, dash, high = span.partition("-")
        if span == "*":
            first, last = bounds
        else:
            first = int(low)
            last = int(high) if dash else bounds[1] if step else first
        values.update(range(first, last + 1, int(step or 1)))
    return frozenset(values)


def run_daemon(
    text: str, changes: list[Transition], start: datetime, end: datetime
) -> list[datetime]:
    """
    Play Debian's cron daemon from *start* to *end* and return when it runs the job.

    Follows the description of its main loop: each minute it compares the clock with
    its own virtual time, which is the last minute whose jobs have run.

    Args:
        text: Rule without names and extensions.

        changes: Of the zone, from before *start* to after *end*, not empty.

        start: Aware UTC.

        end: Aware UTC; not included.
    """
    rule = PlainRule.read(text)
    ran: list[datetime] = []
    instants = [change.at for change in changes]

    def local_at(now: datetime) -> datetime:
        index = bisect_right(instants, now)
        offset = changes[index - 1].after if index else changes[0].before
        return now.replace(tzinfo=None) + offset

    virtual = local_at(start).replace(second=0)
    now = start
    while True:
        # It sleeps until the minute its clock shows is another one.
        now += _MINUTE
        clock = local_at(now)
        if clock.second:
            now += timedelta(seconds=60 - clock.second)
            clock = local_at(now)
        if now >= end:
            return ran

        late = (clock - virtual) // _MINUTE
        wild = fixed = False
        if late == 1:
            virtual = clock
            wild = fixed = rule.suits(clock)
        elif 1 < late <= 5:
            # It woke late: every minute in turn, for all jobs.
            while virtual < clock:
                virtual += _MINUTE
                wild = wild or rule.suits(virtual)
            fixed = wild
        elif 5 < late <= 180:
            # The clock went forward: wildcard jobs for this minute only, fixed ones
            # for every minute that was left out.
            wild = rule.suits(clock)
            while virtual < clock:
                virtual += _MINUTE
                fixed = fixed or rule.suits(virtual)
        elif -180 < late <= 0:
            # It went back: wildcard jobs only, until the virtual time is reached.
            wild = rule.suits(clock)
        else:
            # Somebody set the clock: all jobs, from the new time on.
            virtual = clock
            wild = fixed = rule.suits(clock)

        if wild if rule.is_wild else fixed:
            ran.append(now)


def run_cronsim(
    text: str, zone: ZoneInfo, start: datetime, end: datetime
) -> list[datetime]:
    """Return what cronsim finds in ``[start, end)``; both aware UTC."""
    found: list[datetime] = []
    for local in CronSim(text, (start - _MINUTE).astimezone(zone)):
        instant = local.astimezone(UTC)
        if instant >= end:
            break
        if instant >= start:
            found.append(instant)
    return found
