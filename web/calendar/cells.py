"""The calendar as it is shown: what each hour says, and where it leads. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from actions.load.counting import LoadedMinute
from actions.load.foresee import Whose
from models.operation_state import OperationState
from models.units import format_count
from web.calendar.fetch_calendar import Calendar
from web.calendar.local_days import CalendarDay, CalendarHour
from web.charts import LOOKS, Outcome
from web.preferences import format_iso, format_offset

#: The columns.
HOURS = range(24)

_S = OperationState


@dataclass(frozen=True, slots=True)
class HourCell:
    """
    An hour.

    Args:
        kind: Of what there is to say.
        number: How many were due; of hours to come, how many are planned.
        told: The same in words, with what became of them.
        path: Where they are listed. None: there are none.
        is_now: Whether it is this hour.
    """

    kind: Outcome
    number: int
    told: str
    path: str | None
    is_now: bool

    @property
    def short(self) -> str:
        """The number, as far as there is room: what is due each second has 3.6k."""
        if self.number < 1_000:
            return str(self.number)
        digits = 1 if self.number < 10_000 else 0
        return f"{self.number / 1_000:.{digits}f}k"


@dataclass(frozen=True, slots=True)
class DayRow:
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
    cells: Sequence[Sequence[HourCell]]


def make_rows(calendar: Calendar, whose: Whose) -> list[DayRow]:
    """Return the days of *calendar*, of whose operations *whose* says."""
    today = calendar.at.astimezone(calendar.zone).date()
    rows = []
    for day in calendar.days:
        cells: list[list[HourCell]] = [[] for _ in HOURS]
        for hour in day.hours:
            cells[hour.shown].append(_make_cell(calendar, day, hour, whose))
        notes = ["today"] if day.day == today else []
        if day.change is not None:
            length = day.ends_at - day.starts_at
            notes.append(f"{length / timedelta(hours=1):g} hours")
        of = day.day == today, day.change is not None
        rows.append(DayRow(day.day, ", ".join(notes), *of, cells))
    return rows


def _make_cell(
    calendar: Calendar, day: CalendarDay, hour: CalendarHour, whose: Whose
) -> HourCell:
    local = hour.starts_at.astimezone(calendar.zone)
    number = hour.decided or hour.planned
    told = f"{number:,}: {day.day:%a} {local:%R}"
    if day.change is not None:
        told += f" {format_offset(local)}"
    is_now = hour.starts_at <= calendar.at < hour.ends_at
    path = _make_path(hour, whose) if hour.due else None
    return HourCell(hour.kind, number, f"{told}, {tell(hour)}", path, is_now)


def _make_path(hour: CalendarHour, whose: Whose) -> str:
    # An outage is one row, in the hour in which it began.
    since = min(hour.missed_since or hour.starts_at, hour.starts_at)
    path = "/operations" if hour.decided else "/calendar/planned"
    return link_period(path, since, hour.ends_at, whose)


def link_period(
    path: str, since: datetime, until: datetime, whose: Whose, **more: str
) -> str:
    """Return the link to what is due in a time at *path*, of *whose*; and *more*."""
    period = {"from": format_iso(since), "until": format_iso(until)}
    return f"{path}?{urlencode(more | period | make_filters(whose))}"


def make_filters(whose: Whose) -> dict[str, str]:
    """Return the parameters of links that keep to *whose* operations."""
    pairs = {"app": whose.app, "queue": whose.queue}
    return {name: str(value) for name, value in pairs.items() if value is not None}


def tell(hour: CalendarHour) -> str:
    """Return what an hour has, in words."""
    if not hour.due:
        return "nothing due"
    if hour.states[_S.SUCCEEDED] == hour.due:
        return f"{hour.due:,} ran, all succeeded"
    states = {str(state): count for state, count in hour.states.items()}
    parts = [f"{states[each]:,} {each}" for each in LOOKS if states.get(each)]
    if hour.planned:
        parts.append(f"{hour.planned:,} planned")
    return ", ".join(parts)


def say(calendar: Calendar) -> tuple[str, str]:
    """Return what is special about these days, and what else there is to say."""
    days = _name_days(calendar.days[0].day, calendar.days[-1].day)
    troubles = _tell_troubles(calendar)
    for day in calendar.days:
        if day.change is not None:
            verb = "went" if day.ends_at <= calendar.at else "go"
            where = "forward" if day.change.is_gap else "back"
            return f"{days}. The clocks {verb} {where} on {day.day:%A}.", troubles
    if troubles:
        return f"{days}. {troubles}", ""
    if calendar.count(*_S):
        return f"{days}. Nothing failed or was missed.", ""
    if calendar.planned:
        planned = format_count(calendar.planned, "run is", "runs are")
        return f"{days}. {planned} planned.", ""
    return f"{days}. Nothing is due.", ""


def _tell_troubles(calendar: Calendar) -> str:
    parts = []
    if failed := calendar.count(_S.FAILED):
        parts.append(format_count(failed, "run failed", "runs failed"))
    if missed := calendar.count(_S.MISSED):
        parts.append(format_count(missed, "was missed", "were missed"))
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


#: The room that the bars have in the picture.
_LEFT, _RIGHT, _TOP, _FLOOR = 40, 1224, 22, 104

#: Hours that the table tells.
_TOLD_HOURS = 24

_HOUR = timedelta(hours=1)
_HOURS = 7 * 24
_STEP = (_RIGHT - _LEFT) / _HOURS

#: Units that the name of a day needs.
_ROOM = 44


class ChartLine(NamedTuple):
    """A line of the picture, and its text: what it says, and where."""

    path: str
    text: str
    x: float
    y: float


_NOW = ChartLine(
    f"M{_LEFT + 0.5} {_TOP - 4}V{_FLOOR + 4}", "now", _LEFT + 4, _FLOOR + 18
)


@dataclass(frozen=True, slots=True)
class LoadChart:
    """
    Bars of hours.

    Args:
        paths: Of each queue the strokes; the first stands on the floor, each next on
            the former.
        width: Of a bar.
        rows: Lines of the grid, and how many they stand for.
        days: Where local days begin; of the last, there is no room for the name.
        marks: The hot minutes, by their rank.
        size: Of the picture.
        axis: The floor, and below it *now* at the beginning.
        most: How many the highest bar has.
        least: How many the lowest has.
        fullest: For those who read tables: the hours with the most and their counts,
            the fullest first, as many as are worth reading.
    """

    paths: Mapping[str, str]
    width: float
    rows: Sequence[ChartLine]
    days: Sequence[ChartLine]
    marks: Sequence[ChartLine]
    most: int
    least: int
    fullest: Sequence[tuple[datetime, Mapping[str, int]]]
    size: str = f"{_RIGHT + 8} {_FLOOR + 24}"
    axis: str = f"M{_LEFT} {_FLOOR + 0.5}H{_RIGHT}"
    now: ChartLine = _NOW


def draw_load(
    minutes: Sequence[LoadedMinute],
    hot: Sequence[datetime],
    since: datetime,
    zone: ZoneInfo,
) -> LoadChart:
    """
    Return the bars of seven days.

    Args:
        minutes: Those with occurrences.
        hot: The hottest minutes that are marked, the hottest first.
        since: The first minute, aware.
        zone: Whose days are told.
    """
    counts = [Counter[str]() for _ in range(_HOURS)]
    for each in minutes:
        number = (each.at - since) // _HOUR
        if 0 <= number < _HOURS:
            counts[number].update(each.by_queue)
    totals = [each.total() for each in counts]
    top = _round_up(max(totals))
    per = (_FLOOR - _TOP) / top
    base = [0] * _HOURS
    paths = dict.fromkeys(sorted({queue for each in counts for queue in each}), "")
    for queue in paths:
        for number, of_hour in enumerate(counts):
            if count := of_hour[queue]:
                y = _FLOOR - base[number] * per
                paths[queue] += f"M{_middle(number):.1f} {y:.1f}v{-count * per:.1f}"
                base[number] += count
    at_hours = [min(max((at - since) // _HOUR, 0), _HOURS - 1) for at in hot]
    hours = [(since + number * _HOUR, each) for number, each in enumerate(counts)]
    return LoadChart(
        paths=paths,
        width=round(_STEP - 2, 1),
        rows=[_draw_row(n, _FLOOR - n * per) for n in (0, top // 2, top)],
        days=list(_draw_days(since, zone)),
        marks=[
            _draw_mark(rank, _middle(number), _FLOOR - totals[number] * per)
            for rank, number in enumerate(at_hours, 1)
        ],
        most=max(totals),
        least=min(totals),
        fullest=sorted(hours, key=lambda each: -each[1].total())[:_TOLD_HOURS],
    )


def _middle(hour: int) -> float:
    return _LEFT + (hour + 0.5) * _STEP


def _draw_row(count: int, y: float) -> ChartLine:
    return ChartLine(f"M{_LEFT} {y:.1f}H{_RIGHT}", f"{count:,}", _LEFT - 6, y + 4)


def _draw_mark(rank: int, x: float, y: float) -> ChartLine:
    return ChartLine(f"M{x:.1f} {y - 2:.1f}v-6", str(rank), x, y - 11)


def _draw_days(since: datetime, zone: ZoneInfo) -> Iterator[ChartLine]:
    """Yield where local days begin, to the hour."""
    dates = [(since + n * _HOUR).astimezone(zone).date() for n in range(_HOURS)]
    for number, (former, day) in enumerate(pairwise(dates), 1):
        if day != former:
            x = _LEFT + number * _STEP
            text = f"{day:%a} {day.day}" if x < _RIGHT - _ROOM else ""
            path = f"M{x:.1f} {_TOP - 4}V{_FLOOR + 4}"
            yield ChartLine(path, text, x + 3, _FLOOR + 18)


def _round_up(count: int) -> int:
    """Return a round even number that is not less than *count*, and at least 2."""
    size = 1
    while True:
        for each in (2, 4, 6, 10):
            if each * size >= count:
                return each * size
        size *= 10
