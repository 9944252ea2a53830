"""
Entries of redbeat, as it keeps them in Redis, with recurrence rules (RFC 5545). Pure.

What is written for such a rule is compared with what dateutil finds: whatever does not
agree for a hundred occurrences is refused, so that no reading of ours is silently
another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from dateutil.rrule import rrule, weekday
from pydantic import JsonValue

from actions.importing.origins.celery_schedules import (
    add_crontab,
    add_interval,
    read_enabled,
    refuse_unknown,
)
from actions.importing.origins.clock_times import (
    EVERY,
    ClockFields,
    name_counted_day,
    name_offset,
    read_interval,
)
from actions.importing.origins.imported import (
    UNREADABLE_ERRORS,
    ActionDraft,
    Entry,
    Stored,
    Table,
    explain_unreadable,
    read_schedule,
    refuse,
)
from actions.importing.origins.tasks import run_task
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
_HINT = (
    "Split it into simpler rules, with an end (until) and no count, or let a program of"
    " yours post due dates."
)


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
    bounds = {}
    if rule.dtstart > now:
        bounds["starts_at"] = rule.dtstart.isoformat()
    if rule.until is not None:
        end = rule.until.replace(microsecond=0) + _SECOND
        bounds["ends_at"] = end.isoformat()
    for rules in _propose(rule):
        with suppress(InvalidDocumentError):  # the next one may be taken
            schedule = read_schedule({**bounds, "when": rules}, now)
            found = find_occurrences(schedule, now, _LATEST, limit=len(expected))
            if found == expected:
                draft.document.update(bounds)
                draft.set_rules(rules)
                return
    if len(expected) > MOST_RULES:
        refuse(f"No rule of ours is due exactly as {rule}. {_HINT}")
    # what is left of it is few enough to be named
    draft.set_rules([{"due_date": each.isoformat()} for each in expected])


def _propose(rule: Recurrence) -> Iterator[list[JsonValue]]:
    """
    Yield rules that may mean the same, the likeliest first.

    What is compared may all be of one day, so parts of the rule that would count later
    are not left to that.
    """
    if rule.count or any(map(rule.get, _DAYS_OF_THE_YEAR)):
        return
    in_a_step = {"bysetpos", *_FINER[max(0, rule.freq - _WEEKLY) :]}
    is_step = rule.interval > 1 or rule.freq == _SECONDLY
    if is_step and rule.freq >= _WEEKLY and rule.by.keys() <= in_a_step:
        yield _make_grids(rule)
    clock = _make_clock(rule)
    yield [clock.make_rule(rule.zone)]
    for day, weekday_words in _count_days(rule) if rule.freq <= _DAILY else ():
        cron_rule = clock.spell_cron(day, weekday_words)
        yield [{"cron_rule": cron_rule, "timezone": rule.zone}]


def _make_clock(rule: Recurrence) -> ClockFields:
    """Return rule as sets of numbers."""
    start, freq, by = rule.dtstart, rule.freq, dict(rule.by)
    if not by.keys() & {"bymonthday", "byweekday"}:
        if freq <= _MONTHLY:
            by["bymonthday"] = (start.day,)
        if freq == _YEARLY:
            by.setdefault("bymonth", (start.month,))
        if freq == _WEEKLY:
            by["byweekday"] = (start.weekday(),)

    def read(
        name: str, unit: int, number: int, every: frozenset[int]
    ) -> frozenset[int]:
        """Return what a BY part names, or else what a step reaches from dtstart."""
        step = rule.interval if freq == unit else 1
        reached = _step(number, step, every) if freq >= unit else {number}
        return frozenset(by.get(name, reached))

    months, years = frozenset(by.get("bymonth", EVERY.months)), None
    if freq == _MONTHLY:
        months &= _step(start.month, rule.interval, EVERY.months)
    if freq == _YEARLY and rule.interval > 1:
        years = frozenset(range(start.year, 2200, rule.interval))
    return ClockFields(
        read("byminute", _MINUTELY, start.minute, EVERY.minutes),
        read("byhour", _HOURLY, start.hour, EVERY.hours),
        frozenset(by.get("bymonthday", EVERY.days)),
        months,
        _read_weekdays(by.get("byweekday", ())) or EVERY.weekdays,
        seconds=frozenset(by.get("bysecond", (start.second,))),
        years=years,
    )


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
    weekdays, positions = rule.get("byweekday"), rule.get("bysetpos")
    if _read_weekdays(weekdays) == {1, 2, 3, 4, 5} and positions == (-1,):
        yield "LW", "*"
    words = [
        name_counted_day(_read_weekday(day), place)
        for day in weekdays
        for place in positions or (getattr(day, "n", None),)
        if place
    ]
    if words:
        yield "*", ",".join(words)


def _read_weekdays(days: tuple[Any, ...]) -> frozenset[int]:
    return frozenset(map(_read_weekday, days))


def _read_weekday(day: Any) -> int:
    """Return a weekday of dateutil, where Monday is 0, with Sunday as 0."""
    return (int(getattr(day, "weekday", day)) + 1) % 7


_BY = (
    *("bysetpos", "bymonth", "bymonthday", "byyearday", "byeaster", "byweekno"),
    *("byweekday", "byhour", "byminute", "bysecond"),
)


def read_key(key: str, definition: str, meta: str) -> Entry:
    """
    Return the entry of a key of redbeat.

    Args:
        key: With its prefix; its name, if it cannot be read.
        definition: JSON text of its hash field ``definition``.
        meta: JSON text of its field ``meta``; empty: it has not run yet.
    """
    try:
        fields = {**_load(definition), "meta": _load(meta or "{}")}
    except UNREADABLE_ERRORS as error:
        return Entry(key, problem=explain_unreadable(error))
    return Entry(str(fields.get("name", key)), fields)


def _load(text: str) -> Any:
    return json.loads(text, object_hook=_read_object)


def _read_object(value: dict[str, Any]) -> Any:
    """Return what redbeat would turn into an object of Python as Stored."""
    kind = value.pop("__type__", None)
    return value if kind is None else Stored(str(kind), value)


def _read_schedule(draft: ActionDraft, schedule: Any) -> None:
    match schedule:
        case Stored("crontab", state):
            add_crontab(draft, state, None)
            draft.remarks.append(
                f"Read in {draft.defaults.timezone}; redbeat reads it in the timezone"
                " of its application (--timezone)."
            )
        case Stored("interval", state):
            last = _read_value(draft.fields["meta"].get("last_run_at"))
            begins = last if isinstance(last, datetime) else None
            add_interval(draft, float(state["every"]), begins)
        case Stored("rrule", state):
            _read_rule(draft, _read_rrule(state))
        case Stored(kind):
            refuse_unknown(draft, kind)
        case _:
            refuse_unknown(draft, json.dumps(schedule)[:80])


def _read_rule(draft: ActionDraft, rule: Recurrence) -> None:
    draft.rule = str(rule)
    add_recurrence(draft, rule)
    if rule.zone != "UTC":
        draft.remarks.append(
            f"redbeat keeps dtstart at {rule.dtstart:%z} all year, so {rule.zone}; for"
            " local times write the zone's name and add an hour where it fits."
        )
    when = draft.document["when"]
    if isinstance(when, list) and len(when) > 1:
        draft.remarks.append(f"It takes {len(when)} rules, of {MOST_RULES} at most.")


def _read_task(draft: ActionDraft, task: object) -> None:
    fields = draft.fields
    given = (fields.get("options") or {}).items()
    options = {name: _read_value(value) for name, value in given}
    args, kwargs = fields.get("args") or (), fields.get("kwargs") or {}
    run_task(draft, task, args, kwargs, options)


def _read_rrule(value: Mapping[str, Any]) -> Recurrence:
    dtstart = _read_instant(value, "dtstart")
    if dtstart is None:
        refuse("It has no dtstart. Save the entry once more first.")
    by = {name: _read_parts(value.get(name)) for name in _BY}
    week = next(iter(_read_parts(value.get("wkst"))), None)
    return Recurrence(
        freq=int(value["freq"]),
        dtstart=dtstart,
        zone=name_offset(dtstart.utcoffset() or timedelta()),
        interval=int(value.get("interval") or 1),
        wkst=getattr(week, "weekday", week),
        count=value.get("count"),
        until=_read_instant(value, "until"),
        by={name: values for name, values in by.items() if values},
    )


def _read_instant(value: Mapping[str, Any], name: str) -> datetime | None:
    """Return an instant that redbeat keeps as seconds and minutes of offset."""
    seconds = value.get(name)
    if seconds is None:
        return None
    offset = timedelta(minutes=value.get(f"{name}_tz") or 0)
    return datetime.fromtimestamp(seconds, tz=timezone(offset) if offset else UTC)


def _read_parts(value: Any) -> tuple[Any, ...]:
    """Return the values of a part: none, one, or a list."""
    if value is None:
        return ()
    read = map(_read_value, value if isinstance(value, list) else [value])
    return tuple(each if isinstance(each, weekday) else int(each) for each in read)


def _read_value(value: Any) -> Any:
    """Return the day or the instant that redbeat kept, or *value* as it is."""
    match value:
        case Stored("weekday", state):
            return weekday(int(state["wkday"]), state.get("n"))
        case Stored("datetime", {**parts}):
            zone = parts.pop("timezone", "UTC")
            # a number is what redbeat writes for an offset, in seconds
            is_named = isinstance(zone, str)
            made = ZoneInfo(zone) if is_named else timezone(timedelta(seconds=zone))
            return datetime(**parts, tzinfo=made)
    return value


#: A key of redbeat: its definition, and its ``meta``.
REDBEAT: Table = {
    "enabled": read_enabled,
    "schedule": _read_schedule,
    "task": _read_task,
}
