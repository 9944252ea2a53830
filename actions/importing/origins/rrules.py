"""
Recurrence rules (RFC 5545, as dateutil reads them) as rules of ours. Pure.

What is written is compared with what dateutil finds: whatever does not agree for a
hundred occurrences is refused, so that no reading of ours is silently another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from typing import Any

from dateutil.rrule import rrule, weekday
from pydantic import JsonValue

from actions.importing.origins.clock_fields import (
    EVERY_DAY,
    EVERY_HOUR,
    EVERY_MINUTE,
    EVERY_MONTH,
    EVERY_WEEKDAY,
    ClockFields,
    spell,
)
from actions.importing.origins.durations import read_interval, write_elapsed
from actions.importing.origins.imported import CannotBeError
from actions.occurrences import make_schedule
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError
from models.timing import make_timing
from models.when import MOST_RULES

_YEARLY, _MONTHLY, _WEEKLY, _DAILY, _HOURLY, _MINUTELY, _SECONDLY = range(7)
_NAMES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")

#: Occurrences that must agree.
_COMPARED = 100

#: More of them are not counted to find the last one.
_LONGEST_COUNT = 10_000

#: How far ahead is looked: within 28 years each date has had each weekday. (What never
#: comes, dateutil seeks up to the year 9999, which takes it ten seconds.)
_HORIZON = timedelta(days=366 * 40)

_SECOND = timedelta(seconds=1)
_UNITS = {
    _DAILY: timedelta(days=1),
    _HOURLY: timedelta(hours=1),
    _MINUTELY: timedelta(minutes=1),
    _SECONDLY: _SECOND,
}
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
    by: Mapping[str, tuple[Any, ...]] | None = None

    def __str__(self) -> str:
        """Return it as RFC 5545 writes it."""
        parts = [f"FREQ={_NAMES[self.freq]}"]
        if self.interval != 1:
            parts.append(f"INTERVAL={self.interval}")
        for name, values in (self.by or {}).items():
            short = "BYDAY" if name == "byweekday" else name.upper()
            parts.append(f"{short}={','.join(map(str, values))}")
        if self.count is not None:
            parts.append(f"COUNT={self.count}")
        if self.until is not None:
            parts.append(f"UNTIL={self.until:%Y%m%dT%H%M%S}")
        return ";".join(parts)

    def get(self, name: str) -> tuple[Any, ...]:
        """Return the values of a BY part; empty if there is none."""
        return (self.by or {}).get(name, ())

    def iterate(self, start: datetime) -> Iterator[datetime]:
        """Yield the occurrences at or after *start* (aware), as dateutil finds them."""
        horizon = max(start, self.dtstart) + _HORIZON
        by: dict[str, Any] = {
            name: list(values) for name, values in (self.by or {}).items()
        }
        rule = rrule(
            # dateutil refuses others itself
            self.freq,  # type: ignore[arg-type]
            dtstart=self._skip_to(start),
            interval=self.interval,
            wkst=self.wkst,
            until=horizon if self.until is None else min(self.until, horizon),
            **by,
        )
        # dateutil takes no end beside a count
        found = islice(rule, self.count) if self.count else rule.xafter(start, inc=True)
        return (each.astimezone(UTC) for each in found if each >= start)

    def _skip_to(self, start: datetime) -> datetime:
        """Return a later dtstart of the same grid: years need not be gone through."""
        if self.freq < _HOURLY or self.count is not None or start <= self.dtstart:
            return self.dtstart
        step = self.interval * _UNITS[self.freq]
        return self.dtstart + max(0, (start - self.dtstart) // step - 1) * step


def add_recurrence(
    document: dict[str, JsonValue], rule: Recurrence, *, now: datetime
) -> None:
    """
    Let *document* be due when *rule* is, from *now* (aware) on.

    Raises:
        CannotBeError: If no rules of ours are due at exactly the same instants.
    """
    if rule.interval < 1 or (rule.count or 0) > _LONGEST_COUNT:
        msg = f"It has an interval of {rule.interval} and a count of {rule.count}."
        told = f"{msg} Correct the entry, or leave out the count."
        raise CannotBeError(told)
    if rule.freq == _SECONDLY:
        read_interval(rule.interval)
    expected = list(islice(rule.iterate(now), _COMPARED))
    if not expected:
        msg = "It is over, or not due for a long time. Leave it out."
        raise CannotBeError(msg)
    made: dict[str, JsonValue] = dict(_find_bounds(rule, now))
    rules = _make_when(rule)
    made["when"] = rules[0] if len(rules) == 1 else rules
    if _find_ours(made, now, len(expected)) != expected:
        if len(expected) > MOST_RULES:
            msg = f"No rule of ours is due exactly as {rule}. {_HINT}"
            raise CannotBeError(msg)
        # what is left of it is few enough to be named
        made = {"when": [{"due_date": each.isoformat()} for each in expected]}
    document |= made


def _find_ours(
    made: Mapping[str, JsonValue], now: datetime, count: int
) -> list[datetime]:
    """Return the first occurrences of *made*; empty if the door refuses it."""
    step: Any = {"run_task": {"name": "task", "queue": "celery"}}
    document = {"name": "rule", "operations": step, **made}
    try:
        action = read_action_object(document)
    except InvalidDocumentError:
        return []
    timing = make_timing(action, holidays={}, created_at=now)
    assert timing is not None  # it follows the clock
    schedule = make_schedule(timing)
    found: list[datetime] = []
    start: datetime | None = now
    while len(found) < count and start is not None:
        due_at = schedule.next_from(start)
        if due_at is None:
            break
        found.append(due_at)
        start = due_at + _SECOND
    return found


def _find_bounds(rule: Recurrence, now: datetime) -> Iterator[tuple[str, str]]:
    if rule.dtstart > now:
        yield "starts_at", rule.dtstart.isoformat()
    last = rule.until
    if rule.count is not None:
        found = list(islice(rule.iterate(rule.dtstart), rule.count))
        if len(found) < rule.count:
            msg = f"It runs {rule.count} times, over more than 40 years."
            told = f"{msg} Leave out the count, or give it an end."
            raise CannotBeError(told)
        last = found[-1]
    if last is not None:
        yield "ends_at", (last.replace(microsecond=0) + _SECOND).isoformat()


def _make_when(rule: Recurrence) -> list[JsonValue]:
    """Return the rules that probably mean the same; empty if none comes to mind."""
    if rule.get("bysetpos"):
        return _make_position(rule)
    if rule.get("bymonthday") == (-1,) and not rule.get("byweekday"):
        return _make_cron(rule, "L", "*")
    if any(isinstance(day, weekday) and day.n for day in rule.get("byweekday")):
        return _make_nth_weekdays(rule)
    unfiltered = not any(
        rule.get(name) for name in ("bymonth", "bymonthday", "byyearday", "byweekno")
    )
    if rule.interval > 1 and unfiltered:
        if rule.freq == _WEEKLY:
            return _make_weeks(rule)
        if rule.freq >= _DAILY and not rule.get("byweekday"):
            return _make_steps(rule)
    return [fields.make_rule(rule.zone) for fields in _make_fields(rule)]


def _make_fields(rule: Recurrence) -> list[ClockFields]:
    """Return rule as sets of numbers, one for each second of its minutes."""
    start, freq = rule.dtstart, rule.freq
    days = frozenset(rule.get("bymonthday")) or EVERY_DAY
    weekdays = _read_weekdays(rule.get("byweekday")) or EVERY_WEEKDAY
    months = frozenset(rule.get("bymonth")) or EVERY_MONTH
    has_days = bool(rule.get("bymonthday") or rule.get("byweekday"))
    years = None
    if freq == _YEARLY:
        if not has_days:
            days = frozenset({start.day})
            months = frozenset(rule.get("bymonth")) or frozenset({start.month})
        if rule.interval > 1:
            years = frozenset(range(start.year, 2200, rule.interval))
    elif freq == _MONTHLY:
        if not has_days:
            days = frozenset({start.day})
        months &= _step(start.month, rule.interval, EVERY_MONTH)
    elif freq == _WEEKLY and not rule.get("byweekday"):
        weekdays = frozenset({start.isoweekday() % 7})
    hours = frozenset(rule.get("byhour")) or (
        frozenset({start.hour})
        if freq < _HOURLY
        else _step(start.hour, rule.interval if freq == _HOURLY else 1, EVERY_HOUR)
    )
    minutes = frozenset(rule.get("byminute")) or (
        frozenset({start.minute})
        if freq < _MINUTELY
        else _step(start.minute, rule.interval, EVERY_MINUTE)
    )
    return [
        ClockFields(minutes, hours, days, months, weekdays, second=second, years=years)
        for second in rule.get("bysecond") or (start.second,)
    ]


def _step(start: int, interval: int, every: frozenset[int]) -> frozenset[int]:
    """Return the numbers that a step from *start* reaches, both ways."""
    return frozenset(n for n in every if (n - start) % interval == 0)


def _times(rule: Recurrence) -> list[tuple[int, int, int]]:
    start = rule.dtstart
    return list(
        product(
            rule.get("byhour") or (start.hour,),
            rule.get("byminute") or (start.minute,),
            rule.get("bysecond") or (start.second,),
        )
    )


def _make_steps(rule: Recurrence) -> list[JsonValue]:
    """Every n days, hours or minutes, for each of the finer parts that are named."""
    every = write_elapsed(rule.interval * _UNITS[rule.freq] // _SECOND)
    anchors = islice(rule.iterate(rule.dtstart), _count_in_step(rule))
    return [_grid(every, anchor, rule.zone) for anchor in anchors]


def _count_in_step(rule: Recurrence) -> int:
    finer = ("byhour", "byminute", "bysecond")[max(0, rule.freq - _DAILY) :]
    count = 1
    for name in finer:
        count *= len(rule.get(name)) or 1
    return min(count, MOST_RULES + 1)


def _make_weeks(rule: Recurrence) -> list[JsonValue]:
    """Every n weeks, for each weekday and time of day: a grid of its own."""
    weekdays = _read_weekdays(rule.get("byweekday")) or {rule.dtstart.isoweekday() % 7}
    count = min(len(weekdays) * len(_times(rule)), MOST_RULES + 1)
    every = f"P{rule.interval}W"
    # The first week may have begun before dtstart, so look at whole weeks after it.
    anchors: dict[timedelta, datetime] = {}
    step = timedelta(weeks=rule.interval)
    for each in islice(rule.iterate(rule.dtstart), 2 * count):
        anchors.setdefault((each - rule.dtstart) % step, each)
    return [_grid(every, anchor, rule.zone) for anchor in anchors.values()]


def _grid(every: str, anchor: datetime, zone: str) -> dict[str, JsonValue]:
    return {"every": every, "anchor": anchor.isoformat(), "timezone": zone}


def _make_nth_weekdays(rule: Recurrence) -> list[JsonValue]:
    """The second Tuesday, the last Friday: of each month that is named."""
    words = []
    for day in rule.get("byweekday"):
        number = (day.weekday + 1) % 7
        if day.n is None or day.n < -1 or day.n > 5:
            return []
        words.append(f"{number}L" if day.n == -1 else f"{number}#{day.n}")
    return _make_cron(rule, "*", ",".join(words))


def _make_position(rule: Recurrence) -> list[JsonValue]:
    """The n-th of one weekday, or the last working day, written with BYSETPOS."""
    positions = rule.get("bysetpos")
    weekdays = _read_weekdays(rule.get("byweekday"))
    if len(positions) != 1 or rule.get("bymonthday") or len(_times(rule)) != 1:
        return []
    if weekdays == {1, 2, 3, 4, 5} and positions[0] == -1:
        return _make_cron(rule, "LW", "*")
    if len(weekdays) != 1 or not -1 <= positions[0] <= 5:
        return []
    (number,) = weekdays
    word = f"{number}L" if positions[0] == -1 else f"{number}#{positions[0]}"
    return _make_cron(rule, "*", word)


def _make_cron(rule: Recurrence, day: str, weekday_words: str) -> list[JsonValue]:
    months = frozenset(rule.get("bymonth")) or EVERY_MONTH
    if rule.freq == _YEARLY and not rule.get("bymonth"):
        return []
    months &= _step(rule.dtstart.month, rule.interval, EVERY_MONTH)
    if not months or rule.freq > _MONTHLY:
        return []
    rules: list[JsonValue] = []
    for hour, minute, second in _times(rule):
        if second:
            return []
        fields = (minute, hour, day, spell(months, EVERY_MONTH), weekday_words)
        rules.append({"cron_rule": " ".join(map(str, fields)), "timezone": rule.zone})
    return rules


def _read_weekdays(days: Sequence[Any]) -> frozenset[int]:
    """Return weekdays of dateutil, where Monday is 0, with Sunday as 0."""
    numbers = (each.weekday if isinstance(each, weekday) else each for each in days)
    return frozenset((int(number) + 1) % 7 for number in numbers)
