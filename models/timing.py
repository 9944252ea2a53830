"""
What the tick needs of an action, and its canonical text. Pure.

Holiday calendars are resolved to dates here, when an action is stored. So a change of a
calendar takes effect when the actions that name it are stored again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from models.days_off import DateRangeModel, HolidaysModel, WeekdaysModel
from models.errors import InvalidDocumentError, Problem
from models.fields.strict_model import find_near, show
from models.scheduled_action import ScheduledActionModel
from models.when import (
    AfterActionModel,
    EventModel,
    IntervalModel,
    TimeModel,
    TimingModel,
)

#: First and last day, both included.
DayRange = tuple[date, date]


def make_timing(
    action: ScheduledActionModel,
    *,
    holidays: Mapping[str, Sequence[DayRange]],
    created_at: datetime,
) -> TimingModel | None:
    """
    Return what the tick needs of *action*; None if it follows an event or action.

    Args:
        holidays: The days of each holiday calendar of the small app.
        created_at: Aware. Floored to the minute, it is the anchor of intervals that
            have none.

    Raises:
        InvalidDocumentError: If *action* excepts a calendar that is not among
            *holidays*.
    """
    when = action.when
    if isinstance(when, EventModel | AfterActionModel):
        return None

    kinds = when if isinstance(when, tuple) else (when,)
    rules = tuple(_anchor(kinds, created_at))
    return TimingModel(
        # Their union does not depend on their order, so neither does the text.
        when=_sort(rules) if len(rules) > 1 else rules,
        starts_at=action.starts_at,
        ends_at=action.ends_at,
        excluded=merge_days(_find_excluded(action, holidays)),
        weekdays=action.excepted_weekdays,
        instead=action.instead,
        jitter=action.jitter,
    )


def timing_text(timing: TimingModel) -> str:
    """Return the canonical JSON of *timing*: equal timings have equal texts."""
    bounds = {"starts_at": timing.starts_at, "ends_at": timing.ends_at}
    value = {
        "when": [_dump_rule(rule) for rule in timing.when],
        **{name: at and at.astimezone(UTC).isoformat() for name, at in bounds.items()},
        "excluded": [[day.isoformat() for day in days] for days in timing.excluded],
        "weekdays": timing.weekdays,
        "instead": timing.instead,
        "jitter": timing.jitter,
    }
    return _write({name: each for name, each in value.items() if each})


def merge_days(ranges: Iterable[DayRange]) -> tuple[DayRange, ...]:
    """Return the same days as the fewest ranges, in order."""
    merged: list[DayRange] = []
    for first, last in sorted(ranges):
        # Compared as a difference: no day follows the last of the calendar.
        if merged and first - merged[-1][1] <= timedelta(days=1):
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))

    return tuple(merged)


def _write(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _dump_rule(rule: TimeModel) -> dict[str, object]:
    return rule.model_dump(mode="json", exclude_none=True, by_alias=True)


def _sort(rules: Iterable[TimeModel]) -> tuple[TimeModel, ...]:
    """Return *rules* in the order of their texts, each once."""
    by_text = {_write(_dump_rule(rule)): rule for rule in rules}
    return tuple(by_text[text] for text in sorted(by_text))


def _anchor(kinds: Iterable[TimeModel], created_at: datetime) -> Iterable[TimeModel]:
    """Yield *kinds* with the anchor that an interval lacks filled in."""
    anchor = created_at.astimezone(UTC).replace(second=0, microsecond=0)
    for rule in kinds:
        if isinstance(rule, IntervalModel) and rule.anchor is None:
            yield rule.model_copy(update={"anchor": anchor.isoformat()})
        else:
            yield rule


def _find_excluded(
    action: ScheduledActionModel, holidays: Mapping[str, Sequence[DayRange]]
) -> list[DayRange]:
    """Return the days that *action* excepts by their dates, in any order."""
    excluded: list[DayRange] = []
    problems: list[Problem] = []
    for index, entry in enumerate(action.except_):
        if isinstance(entry, WeekdaysModel):
            continue
        if isinstance(entry, DateRangeModel):
            excluded.append((entry.from_, entry.until))
        elif not isinstance(entry, HolidaysModel):
            excluded.append((entry, entry))
        elif entry.calendar in holidays:
            excluded.extend(holidays[entry.calendar])
        else:
            problems.append(_make_problem(index, entry.calendar, holidays))

    if problems:
        raise InvalidDocumentError(tuple(problems))

    return excluded


def _make_problem(index: int, name: str, holidays: Iterable[str]) -> Problem:
    known = sorted(holidays)
    near = find_near(name, known)
    hint = "" if near is None else f"Did you mean '{near}'? "
    listed = ", ".join(known[:20])
    hint += f"It has: {listed}." if known else "It has none; add it with 'apps apply'."
    message = f"{show(name)} is not a holiday calendar of this small app."
    return Problem(f"/except/{index}/calendar", message, hint)
