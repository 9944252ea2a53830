"""The calendar as it is shown: what each hour says, and where it leads. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from urllib.parse import urlencode

from actions.load.foresee import Whose
from models.operation_state import OperationState
from web.calendar.fetch_calendar import (
    Calendar,
    CountedDay,
    CountedHour,
    HourCounts,
    HourKind,
)
from web.clocks import format_iso, format_offset

#: The columns.
HOURS = range(24)

_S = OperationState

#: In which order the states of an hour are told.
_TOLD = (
    *(_S.SUCCEEDED, _S.FAILED, _S.MISSED, _S.SKIPPED, _S.CANCELED),
    *(_S.RUNNING, _S.QUEUED, _S.PENDING),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """
    An hour.

    Args:
        kind: Of what there is to say.
        number: How many were due; of hours to come, how many are planned.
        told: The same in words, with what became of them.
        path: Where they are listed. None: there are none.
        is_now: Whether it is this hour.
    """

    kind: HourKind
    number: int
    told: str
    path: str | None
    is_now: bool


@dataclass(frozen=True, slots=True)
class Row:
    """
    A day.

    Args:
        note: ``today``, or how many hours it has if the clocks change.
        cells: Of each column: one, none if clocks skip it, two if it comes twice.
    """

    day: date
    note: str
    is_today: bool
    is_changed: bool
    cells: Sequence[Sequence[Cell]]


def make_rows(calendar: Calendar, whose: Whose) -> list[Row]:
    """Return the days of *calendar*, of whose operations *whose* says."""
    today = calendar.at.astimezone(calendar.zone).date()
    return [_make_row(calendar, each, today, whose) for each in calendar.days]


def _make_row(calendar: Calendar, day: CountedDay, today: date, whose: Whose) -> Row:
    cells: list[list[Cell]] = [[] for _ in HOURS]
    for each in day.hours:
        cells[each.hour.shown].append(_make_cell(calendar, day, each, whose))
    is_today = day.day.day == today
    length = day.day.ends_at - day.day.starts_at
    notes = ["today"] if is_today else []
    if day.day.change is not None:
        notes.append(f"{length / timedelta(hours=1):g} hours")
    return Row(
        day.day.day, ", ".join(notes), is_today, day.day.change is not None, cells
    )


def _make_cell(
    calendar: Calendar, day: CountedDay, each: CountedHour, whose: Whose
) -> Cell:
    hour, counts = each.hour, each.counts
    is_now = hour.starts_at <= calendar.at < hour.ends_at
    number = counts.decided or counts.planned
    local = hour.starts_at.astimezone(calendar.zone)
    told = f"{number:,}: {day.day.day:%a} {local:%R}"
    if day.day.change is not None:
        told += f" {format_offset(local)}"
    path = None
    if counts.due:
        path = _make_path(counts, whose, hour.starts_at, hour.ends_at)
    return Cell(counts.kind, number, f"{told}, {tell(counts)}", path, is_now)


def _make_path(
    counts: HourCounts, whose: Whose, since: datetime, until: datetime
) -> str:
    query = {"from": format_iso(since), "until": format_iso(until)}
    query |= make_filters(whose)
    if not counts.decided:
        return f"/calendar/planned?{urlencode(query)}"
    if counts.missed_since is not None and counts.missed_since < since:
        # An outage is one row, in the hour in which it began.
        query["from"] = format_iso(counts.missed_since)
    return f"/operations?{urlencode(query)}"


def make_filters(whose: Whose) -> dict[str, str]:
    """Return the parameters of links that keep to *whose* operations."""
    pairs = {"app": whose.app, "queue": whose.queue}
    return {name: str(value) for name, value in pairs.items() if value is not None}


def tell(counts: HourCounts) -> str:
    """
    Return what an hour has, in words.

    >>> tell(HourCounts(planned=3))
    '3 planned'
    """
    if not counts.due:
        return "nothing due"
    succeeded = counts.states[_S.SUCCEEDED]
    if succeeded == counts.due:
        return f"{succeeded:,} ran, all succeeded"
    parts = [
        f"{counts.states[state]:,} {state}" for state in _TOLD if counts.states[state]
    ]
    if counts.planned:
        parts.append(f"{counts.planned:,} planned")
    return ", ".join(parts)


def say(calendar: Calendar) -> tuple[str, str]:
    """Return what is special about these days, and what else there is to say."""
    first, last = calendar.days[0].day.day, calendar.days[-1].day.day
    days = _name_days(first, last)
    change = next((e.day for e in calendar.days if e.day.change is not None), None)
    troubles = _tell_troubles(calendar)
    if change is not None and change.change is not None:
        verb = "go forward" if change.change.is_gap else "go back"
        told = "went" if change.ends_at <= calendar.at else "go"
        verb = verb.replace("go", told, 1)
        return f"{days}. The clocks {verb} on {change.day:%A}.", troubles
    if troubles:
        return f"{days}. {troubles}", ""
    if calendar.planned and not calendar.count(*_S):
        return f"{days}. {calendar.planned:,} runs are planned.", ""
    if calendar.count(*_S):
        return f"{days}. Nothing failed or was missed.", ""
    return f"{days}. Nothing is due.", ""


def _tell_troubles(calendar: Calendar) -> str:
    failed, missed = calendar.count(_S.FAILED), calendar.count(_S.MISSED)
    parts = [
        f"{count:,} {word}"
        for count, word in (
            (failed, "run failed" if failed == 1 else "runs failed"),
            (missed, "was missed" if missed == 1 else "were missed"),
        )
        if count
    ]
    return f"{' and '.join(parts)}." if parts else ""


def _name_days(first: date, last: date) -> str:
    """
    Return a range of days.

    >>> _name_days(date(2026, 9, 28), date(2026, 10, 4))
    '28 September to 4 October'
    """
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day} to {last.day} {last:%B}"
    if first.year == last.year:
        return f"{first.day} {first:%B} to {last.day} {last:%B}"
    return f"{first.day} {first:%B} {first.year} to {last.day} {last:%B} {last.year}"
