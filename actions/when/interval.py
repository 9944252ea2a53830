"""
When an interval is due: a fixed grid from its anchor. Pure.

The n-th occurrence is always counted from the anchor, never from the previous one, so
neither slow runs nor short months shift the grid: 31 January, 28 February, 31 March.
Years, months, weeks and days step the local calendar, so a time of day stays what it is
through summer and winter; hours, minutes and seconds are elapsed time, added to that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from actions.when.local_time import resolve_fixed
from models.errors import RuleError
from models.fields.duration import Duration, parse_interval
from models.fields.instants import LAST_YEAR, parse_due_date
from models.fields.zone import load_zone
from models.when import IntervalModel

#: Mean length of a month of the Gregorian calendar: 146,097 days in 4,800 months.
_MEAN_MONTH = timedelta(days=146_097) / 4_800


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """
    The rule *anchor* + n times *every*, n = 0, 1, 2, ...

    Args:
        every: Its months and days follow the local calendar of *zone* (as fixed times,
            see local_time.py); the rest is added as elapsed time.
        anchor: The first occurrence; aware UTC, whole seconds.
        zone: Whose calendar the months and days follow.
        text: *anchor* as its author wrote it. None: it is an instant in any zone.
    """

    every: Duration
    anchor: datetime
    zone: ZoneInfo
    text: str | None = None

    def next_from(self, instant: datetime) -> datetime | None:
        """Return the first occurrence at or after *instant*, as ``Rule`` demands."""
        if instant <= self.anchor:
            return self.anchor

        try:
            due_at = self._next_after_anchor(instant)
        except OverflowError:  # beyond what a datetime holds
            return None

        return due_at if due_at.year <= LAST_YEAR else None

    def in_zone(self, zone: ZoneInfo) -> IntervalRule:
        """Return the same grid, from the anchor's text as read in *zone*."""
        anchor = self.anchor if self.text is None else parse_due_date(self.text, zone)
        return replace(self, anchor=anchor, zone=zone)

    def without_clock_changes(self) -> IntervalRule | None:
        """Return the same calendar steps in UTC; None if *every* has elapsed time."""
        if not self.every.is_calendar or self.every.rest:
            return None
        local = self.anchor.astimezone(self.zone).replace(tzinfo=UTC)
        return IntervalRule(self.every, local, load_zone("UTC"))

    def _next_after_anchor(self, instant: datetime) -> datetime:
        if not self.every.is_calendar:
            count = -((self.anchor - instant) // self.every.rest)
            return self.anchor + count * self.every.rest

        # Calendar steps are even on average: guess, then correct by a step or two.
        step = self.every.months * _MEAN_MONTH + self.every.elapsed
        count = (instant - self.anchor) // step
        while count > 0 and not self._is_before(count - 1, instant):
            count -= 1
        while (due_at := self._at(count)) is None or due_at < instant:
            count += 1

        return due_at

    def _is_before(self, count: int, instant: datetime) -> bool:
        due_at = self._at(count)
        return due_at is not None and due_at < instant

    def _at(self, count: int) -> datetime | None:
        """Return occurrence *count*; None if a large clock shift left it out."""
        if not count:
            # The anchor is an instant, even in the second pass of a repeated hour.
            return self.anchor

        local = self.anchor.astimezone(self.zone).replace(tzinfo=None)
        due_at = resolve_fixed(self.every.stepped(local, count), self.zone)
        return None if due_at is None else due_at + count * self.every.rest


def make_interval_rule(model: IntervalModel) -> IntervalRule:
    """
    Return the rule that *model* describes.

    Raises:
        RuleError: If the zone is unknown, ``every`` is not a duration of a minute or
            more, or ``anchor`` is missing or not an instant of the years 1970 to 9990.

    >>> model = IntervalModel(every="P1M", anchor="2027-01-31T00:00:00Z")
    >>> from datetime import UTC
    >>> str(make_interval_rule(model).next_from(datetime(2027, 2, 1, tzinfo=UTC)))
    '2027-02-28 00:00:00+00:00'
    """
    zone = load_zone(model.timezone)
    every = parse_interval(model.every)
    if model.anchor is None:
        # Posting fills in a missing anchor; without one, the grid has no position.
        msg = f"The interval {model.every!r} has no anchor."
        raise RuleError(msg, "Write when it starts, such as '2026-01-01T00:00:00Z'.")

    return IntervalRule(every, parse_due_date(model.anchor, zone), zone, model.anchor)
