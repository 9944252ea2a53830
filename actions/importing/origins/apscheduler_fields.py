"""The fields of a cron trigger of APScheduler 3: what its expressions mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from actions.importing.origins.clock_fields import (
    EVERY_HOUR,
    EVERY_MINUTE,
    EVERY_MONTH,
    EVERY_WEEKDAY,
    ClockFields,
    name_weekdays,
    spell,
)
from actions.importing.origins.imported import CannotBeError

#: Bounds of each field; an ISO year has up to 53 weeks. Monday is 0.
_BOUNDS = {
    "year": (1970, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "week": (1, 53),
    "day_of_week": (0, 6),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}

#: The number of "last" among the options of a position; the others count from 0.
_LAST_OPTION = 5


@dataclass(frozen=True, slots=True)
class Stored:
    """
    An object of a job store: what it was, and what it held; nothing of it was run.

    Args:
        kind: ``module:class``.
        state: What it held, by name.
    """

    kind: str
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TriggerFields:
    """
    What a cron trigger asks for.

    Args:
        text: Of those fields that were given.
        clock: Times and days; the days are those named by number.
        is_last: Whether the last day of the month is named.
        nths: Weekdays (Monday is 0) by their number in the month; -1 is the last.
        weeks: ISO weeks. None: all of them.
        years: None: all of them.
    """

    text: str
    clock: ClockFields
    is_last: bool
    nths: Sequence[tuple[int, int]]
    weeks: frozenset[int] | None
    years: frozenset[int] | None

    def __str__(self) -> str:
        """Return the fields that were given."""
        return self.text

    @property
    def second(self) -> int:
        """The second of the minute."""
        return self.clock.second

    @property
    def needs_both(self) -> bool:
        """Whether days of the month and weekdays are restricted."""
        return self.clock.weekdays != EVERY_WEEKDAY and len(self.clock.days) < 31

    def limit_to(self, years: list[int]) -> None:
        """Leave *years*, ascending, in the rule if there is a hole between them."""
        if years[-1] - years[0] + 1 != len(years):
            kept = frozenset(year for year in years if year <= years[0] + 100)
            self.clock = replace(self.clock, years=kept)

    def spell_cron(self, day: str, weekday: str) -> str:
        """Return the times and months as a cron rule with these two day fields."""
        clock = self.clock
        minute, hour = (
            spell(clock.minutes, EVERY_MINUTE),
            spell(clock.hours, EVERY_HOUR),
        )
        return f"{minute} {hour} {day} {spell(clock.months, EVERY_MONTH)} {weekday}"

    def spell_last_day(self) -> str:
        """Return the last day of the month, if it is one of the weekdays."""
        clock = self.clock
        months, hours, minutes = (
            "*" if chosen == every else ",".join(f"{n:02}" for n in sorted(chosen))
            for chosen, every in (
                (clock.months, EVERY_MONTH),
                (clock.hours, EVERY_HOUR),
                (clock.minutes, EVERY_MINUTE),
            )
        )
        return f"{name_weekdays(clock.weekdays)} *-{months}~01 {hours}:{minutes}"


def read_fields(fields: Iterable[Stored]) -> TriggerFields:
    """
    Return what the fields of a trigger ask for.

    Raises:
        CannotBeError: If that is finer than a minute, or an expression is unknown.
    """
    by_name = {each.state["name"]: each for each in fields}
    numbers: dict[str, frozenset[int]] = {}
    words, last, nths = [], False, []
    for name, bounds in _BOUNDS.items():
        values: set[int] = set()
        texts = []
        for expression in by_name[name].state["expressions"]:
            kind, state = expression.kind.rpartition(":")[2], expression.state
            texts.append(_write(kind, state))
            if kind == "LastDayOfMonthExpression":
                last = True
            elif kind == "WeekdayPositionExpression":
                option = state["option_num"]
                nth = -1 if option == _LAST_OPTION else option + 1
                nths.append((state["weekday"], nth))
            else:
                values |= _expand(kind, state, *bounds)
        numbers[name] = frozenset(values)
        if not by_name[name].state.get("is_default"):
            words.append(f"{name}={','.join(texts)}")
    return _make_fields(" ".join(words), numbers, is_last=last, nths=nths)


def _make_fields(
    text: str,
    numbers: dict[str, frozenset[int]],
    *,
    is_last: bool,
    nths: list[tuple[int, int]],
) -> TriggerFields:
    if len(numbers["second"]) != 1:
        times = len(numbers["second"])
        msg = (
            f"It runs {times} times a minute; a tick is a minute. Let a task of every"
            " minute do it in a loop, or leave the job where it is."
        )
        raise CannotBeError(msg)
    (second,) = numbers["second"]
    weekdays = frozenset((day + 1) % 7 for day in numbers["day_of_week"])
    clock = ClockFields(
        numbers["minute"],
        numbers["hour"],
        numbers["day"],
        numbers["month"],
        weekdays,
        second=second,
    )
    weeks, years = numbers["week"], numbers["year"]
    low, high = _BOUNDS["year"]
    return TriggerFields(
        text,
        clock,
        is_last,
        [(day, nth) for day, nth in nths if day in numbers["day_of_week"]],
        None if len(weeks) == 53 else weeks,
        None if len(years) == high - low + 1 else years,
    )


def _expand(kind: str, state: dict[str, Any], low: int, high: int) -> set[int]:
    step = state.get("step") or 1
    if kind == "AllExpression":
        return set(range(low, high + 1, step))
    if kind in {"RangeExpression", "MonthRangeExpression", "WeekdayRangeExpression"}:
        first, last = state["first"], state["last"]
        return set(range(first, (high if last is None else last) + 1, step))
    msg = f"{kind} is not an expression of APScheduler's own. Write it by hand."
    raise CannotBeError(msg)


def _write(kind: str, state: dict[str, Any]) -> str:
    if kind == "LastDayOfMonthExpression":
        return "last"
    if kind == "WeekdayPositionExpression":
        options = ("1st", "2nd", "3rd", "4th", "5th", "last")
        names = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
        return f"{options[state['option_num']]} {names[state['weekday']]}"
    first, last, step = state.get("first"), state.get("last"), state.get("step")
    text = "*" if first is None else str(first)
    if last is not None and last != first:
        text += f"-{last}"
    return f"{text}/{step}" if step else text
