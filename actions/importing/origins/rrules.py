"""
Recurrence rules (RFC 5545, as dateutil reads them) as rules of ours. Pure.

What is written is compared with what dateutil finds: whatever does not agree for a
hundred occurrences is refused, so that no reading of ours is silently another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from dateutil.rrule import rrule
from pydantic import JsonValue

from actions.importing.origins.clock_times import (
    EVERY_DAY,
    EVERY_HOUR,
    EVERY_MINUTE,
    EVERY_MONTH,
    EVERY_WEEKDAY,
    ClockFields,
    name_counted_day,
    read_interval,
)
from actions.importing.origins.imported import ActionDraft, read_schedule, refuse
from actions.when.searching import find_occurrences
from models.errors import InvalidDocumentError
from models.fields.duration import write_elapsed
from models.when import MOST_RULES

_YEARLY, _MONTHLY, _WEEKLY, _DAILY, _HOURLY, _MINUTELY, _SECONDLY = range(7)

#: Occurrences that must agree.
_COMPARED = 100

#: More of them are not counted to find the last one.
_LONGEST_COUNT = 10_000

#: How far ahead is looked: within 28 years each date has had each weekday. (What never
#: comes, dateutil seeks up to the year 9999, which takes it ten seconds.)
_HORIZON = timedelta(days=366 * 40)

_LATEST = datetime.max.replace(tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_UNITS = {
    _WEEKLY: timedelta(weeks=1),
    _DAILY: timedelta(days=1),
    _HOURLY: timedelta(hours=1),
    _MINUTELY: timedelta(minutes=1),
    _SECONDLY: _SECOND,
}
#: Parts of a rule that no field of ours has.
_DAYS_OF_THE_YEAR = ("byyearday", "byweekno", "byeaster")
#: Parts that name places within a step of weeks; the last three, within one of days.
_FINER = ("byweekday", "byhour", "byminute", "bysecond")
_HINT = "Split it into simpler rules, or let a program of yours post due dates."


@dataclass(frozen=True, slots=True)
class Recurrence:
    """
    A recurrence rule: the arguments of ``dateutil.rrule.rrule``, read.

    Args:
        dtstart: Aware, with a fixed offset: the rule knows no clock changes.
        zone: A zone of ours that has this offset, always.
    """

    freq: int
    dtstart: datetime
    zone: str
    interval: int = 1
    wkst: int | None = None
    count: int | None = None
    until: datetime | None = None
    by: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it as RFC 5545 writes it."""
        whole = self._make(self.dtstart, count=self.count, until=self.until)
        return str(whole).rpartition("RRULE:")[2]

    def get(self, name: str) -> tuple[Any, ...]:
        """Return the values of a BY part; empty if there is none."""
        return self.by.get(name, ())

    def iterate(self, start: datetime) -> Iterator[datetime]:
        """Yield the occurrences at or after *start* (aware), as dateutil finds them."""
        horizon = max(start, self.dtstart) + _HORIZON
        until = horizon if self.until is None else min(self.until, horizon)
        # dateutil takes no end beside a count
        rule = self._make(self._skip_to(start), until=until)
        found = islice(rule, self.count) if self.count else rule.xafter(start, inc=True)
        return (each.astimezone(UTC) for each in found if each >= start)

    def _make(self, dtstart: datetime, **end: Any) -> rrule:
        same: dict[str, Any] = {"interval": self.interval, "wkst": self.wkst, **self.by}
        # dateutil refuses other frequencies itself
        return rrule(self.freq, dtstart, **same, **end)  # type: ignore[arg-type]

    def _skip_to(self, start: datetime) -> datetime:
        """Return a later dtstart of the same grid: years need not be gone through."""
        if self.freq < _HOURLY or self.count is not None or start <= self.dtstart:
            return self.dtstart
        step = self.interval * _UNITS[self.freq]
        return self.dtstart + max(0, (start - self.dtstart) // step - 1) * step


def add_recurrence(draft: ActionDraft, rule: Recurrence) -> None:
    """
    Let the action of *draft* be due when *rule* is, from now on.

    Raises:
        CannotBeError: If no rules of ours are due at exactly the same instants.
    """
    now = draft.defaults.now
    if rule.interval < 1 or (rule.count or 0) > _LONGEST_COUNT:
        refuse(
            f"It has an interval of {rule.interval} and a count of {rule.count}."
            " Correct the entry, or leave out the count."
        )
    if rule.freq == _SECONDLY:
        read_interval(rule.interval)
    expected = list(islice(rule.iterate(now), _COMPARED))
    if not expected:
        refuse("It is over, or not due for a long time. Leave it out.")
    bounds = dict(_find_bounds(rule, now))
    for rules in _propose(rule):
        if _find_ours({**bounds, "when": rules}, now, len(expected)) == expected:
            draft.document.update(bounds)
            draft.set_rules(rules)
            return
    if len(expected) > MOST_RULES:
        refuse(f"No rule of ours is due exactly as {rule}. {_HINT}")
    # what is left of it is few enough to be named
    draft.set_rules([{"due_date": each.isoformat()} for each in expected])


def _find_ours(
    document: Mapping[str, Any], now: datetime, count: int
) -> list[datetime]:
    """Return the first occurrences of *document*; empty if the door refuses it."""
    try:
        schedule = read_schedule(document, now)
    except InvalidDocumentError:
        return []
    return find_occurrences(schedule, now, _LATEST, limit=count)


def _find_bounds(rule: Recurrence, now: datetime) -> Iterator[tuple[str, str]]:
    if rule.dtstart > now:
        yield "starts_at", rule.dtstart.isoformat()
    last = rule.until
    if rule.count is not None:
        found = list(islice(rule.iterate(rule.dtstart), rule.count))
        if len(found) < rule.count:
            refuse(
                f"It runs {rule.count} times, over more than 40 years."
                " Leave out the count, or give it an end."
            )
        last = found[-1]
    if last is not None:
        yield "ends_at", (last.replace(microsecond=0) + _SECOND).isoformat()


def _propose(rule: Recurrence) -> Iterator[list[JsonValue]]:
    """
    Yield rules that may mean the same, the likeliest first.

    What is compared may all be of one day, so parts of the rule that would count later
    are not left to that.
    """
    if any(map(rule.get, _DAYS_OF_THE_YEAR)):
        return
    in_a_step = {"bysetpos", *_FINER[max(0, rule.freq - _WEEKLY) :]}
    is_step = rule.interval > 1 or rule.freq == _SECONDLY
    if is_step and rule.freq >= _WEEKLY and rule.by.keys() <= in_a_step:
        yield _make_grids(rule)
    clocks = _make_clocks(rule)
    yield [clock.make_rule(rule.zone) for clock in clocks]
    for day, weekday_words in _count_days(rule) if rule.freq <= _DAILY else ():
        yield [
            {"cron_rule": clock.spell_cron(day, weekday_words), "timezone": rule.zone}
            for clock in clocks
        ]


def _make_clocks(rule: Recurrence) -> list[ClockFields]:
    """Return rule as sets of numbers, one for each second of its minutes."""
    start, freq = rule.dtstart, rule.freq

    def read(
        name: str, unit: int, number: int, every: frozenset[int]
    ) -> frozenset[int]:
        """Return what a BY part names, or else what a step reaches from dtstart."""
        step = rule.interval if freq == unit else 1
        reached = _step(number, step, every) if freq >= unit else {number}
        return frozenset(rule.get(name)) or frozenset(reached)

    has_days = bool(rule.get("bymonthday") or rule.get("byweekday"))
    days = frozenset(rule.get("bymonthday")) or EVERY_DAY
    weekdays = _read_weekdays(rule) or EVERY_WEEKDAY
    months = frozenset(rule.get("bymonth")) or EVERY_MONTH
    years = None
    if not has_days and freq <= _MONTHLY:
        days = frozenset({start.day})
    if not has_days and freq == _WEEKLY:
        weekdays = frozenset({start.isoweekday() % 7})
    if freq == _MONTHLY:
        months &= _step(start.month, rule.interval, EVERY_MONTH)
    elif freq == _YEARLY and not has_days:
        months = frozenset(rule.get("bymonth") or {start.month})
    if freq == _YEARLY and rule.interval > 1:
        years = frozenset(range(start.year, 2200, rule.interval))
    hours = read("byhour", _HOURLY, start.hour, EVERY_HOUR)
    minutes = read("byminute", _MINUTELY, start.minute, EVERY_MINUTE)
    return [
        ClockFields(minutes, hours, days, months, weekdays, second=second, years=years)
        for second in rule.get("bysecond") or (start.second,)
    ]


def _step(start: int, interval: int, every: frozenset[int]) -> frozenset[int]:
    """Return the numbers that a step from *start* reaches, both ways."""
    return frozenset(n for n in every if (n - start) % interval == 0)


def _make_grids(rule: Recurrence) -> list[JsonValue]:
    """Every n weeks, days, hours or minutes: a grid for each place in that step."""
    step = rule.interval * _UNITS[rule.freq]
    is_weekly = rule.freq == _WEEKLY
    every = f"P{rule.interval}W" if is_weekly else write_elapsed(step // _SECOND)
    # The first week may have begun before dtstart, so look at whole weeks after it.
    anchors: dict[timedelta, datetime] = {}
    for each in islice(rule.iterate(rule.dtstart), 2 * MOST_RULES + 2):
        anchors.setdefault((each - rule.dtstart) % step, each)
    return [
        {"every": every, "anchor": anchor.isoformat(), "timezone": rule.zone}
        for anchor in anchors.values()
    ]


def _count_days(rule: Recurrence) -> Iterator[tuple[str, str]]:
    """Yield day fields of cron for the last day, the second Tuesday, and the like."""
    if rule.get("bymonthday") == (-1,):
        yield "L", "*"
    weekdays, positions = _read_weekdays(rule), rule.get("bysetpos")
    if weekdays == {1, 2, 3, 4, 5} and positions == (-1,):
        yield "LW", "*"
    words = [
        name_counted_day(_read_weekday(day), place)
        for day in rule.get("byweekday")
        for place in positions or (getattr(day, "n", None),)
        if place
    ]
    if words:
        yield "*", ",".join(words)


def _read_weekdays(rule: Recurrence) -> frozenset[int]:
    return frozenset(map(_read_weekday, rule.get("byweekday")))


def _read_weekday(day: Any) -> int:
    """Return a weekday of dateutil, where Monday is 0, with Sunday as 0."""
    return (int(getattr(day, "weekday", day)) + 1) % 7
