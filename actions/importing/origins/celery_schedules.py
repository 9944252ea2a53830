"""
The schedules of Celery, wherever they are kept: crontab, interval, sun. Pure.

celery beat, django-celery-beat and redbeat run the same classes, so one module says
what those become. A crontab of theirs is due on days that match the day of the month
*and* the weekday.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from actions.importing.origins.clock_fields import (
    EVERY_DAY,
    EVERY_HOUR,
    EVERY_MINUTE,
    EVERY_MONTH,
    EVERY_WEEKDAY,
    MONTH_NAMES,
    WEEKDAY_NAMES,
    ClockFields,
)
from actions.importing.origins.durations import read_interval, write_elapsed
from actions.importing.origins.imported import ActionDraft, CannotBeError, Defaults

#: A field of a crontab: text, one number, or several.
Cronspec = str | int | Iterable[int]

OTHER_CLOCK = (
    "Beat runs what is skipped at a later clock time, and what comes twice once"
    " (docs/time.md)."
)

_NAMES = {name: number for number, name in enumerate(WEEKDAY_NAMES)} | {
    name: number for number, name in enumerate(MONTH_NAMES, 1)
}
_TERM = re.compile(
    r"(?:(?P<star>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\w+))?"
)


@dataclass(frozen=True, slots=True)
class Crontab:
    """
    A ``crontab`` of Celery, its fields as they were written.

    Args:
        timezone: Zone in which it is read. None: not known.
    """

    minute: Cronspec = "*"
    hour: Cronspec = "*"
    day_of_month: Cronspec = "*"
    month_of_year: Cronspec = "*"
    day_of_week: Cronspec = "*"
    timezone: str | None = None

    def __str__(self) -> str:
        """Return the fields in the order of cron, and the zone."""
        fields = [_write(each) for each in self._fields]
        return " ".join([*fields, *([self.timezone] if self.timezone else [])])

    @property
    def _fields(self) -> tuple[Cronspec, ...]:
        days = (self.day_of_month, self.month_of_year, self.day_of_week)
        return (self.minute, self.hour, *days)

    def read(self) -> ClockFields:
        """
        Return what it means.

        Raises:
            CannotBeError: If Celery cannot read it either.
        """
        texts = [_write(each).replace(" ", "") for each in self._fields]
        return ClockFields(
            minutes=_read(texts[0], EVERY_MINUTE),
            hours=_read(texts[1], EVERY_HOUR),
            days=_read(texts[2], EVERY_DAY),
            months=_read(texts[3], EVERY_MONTH),
            weekdays=_read(texts[4], EVERY_WEEKDAY),
            written=" ".join(texts),
        )


@dataclass(frozen=True, slots=True)
class Interval:
    """A ``schedule`` of Celery: so many seconds after it last ran."""

    seconds: float

    def __str__(self) -> str:
        """Return how often it runs."""
        return f"every {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Solar:
    """A ``solar`` of Celery."""

    event: str
    latitude: float
    longitude: float

    def __str__(self) -> str:
        """Return what the sun does, and where."""
        return f"{self.event} at {self.latitude}, {self.longitude}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A schedule that is none of Celery's own."""

    text: str

    def __str__(self) -> str:
        """Return what it says of itself."""
        return self.text


CelerySchedule = Crontab | Interval | Solar | Unknown


def schedule_as(
    draft: ActionDraft,
    schedule: CelerySchedule,
    defaults: Defaults,
    *,
    last_run_at: datetime | None = None,
) -> None:
    """
    Let the action of *draft* be due when *schedule* was.

    Args:
        draft: Gets ``when``, and what differs.
        schedule: As its origin kept it.
        defaults: For the zone.
        last_run_at: Aware; from it an interval goes on. None: not known.

    Raises:
        CannotBeError: If nothing of ours can.
    """
    draft.rule = str(schedule)
    match schedule:
        case Crontab():
            add_crontab(draft, schedule, defaults)
        case Interval():
            every = write_elapsed(read_interval(schedule.seconds))
            add_interval(draft, every, defaults, last_run_at=last_run_at)
        case Solar():
            msg = (
                "No rule follows the sun. Let a program of yours post a due date for"
                " each day, or choose a time of day that always suits."
            )
            raise CannotBeError(msg)
        case Unknown():
            msg = (
                f"{schedule.text[:80]} is not a schedule of Celery's own. Write the"
                " action by hand, or let a program of yours post due dates."
            )
            raise CannotBeError(msg)


def add_crontab(draft: ActionDraft, crontab: Crontab, defaults: Defaults) -> None:
    """Let the action of *draft* be due when *crontab* is."""
    fields = crontab.read()
    when = fields.make_rule(crontab.timezone or defaults.timezone)
    draft.document["when"] = when
    draft.other_clock = OTHER_CLOCK
    if "calendar" in when:
        draft.differences.append(
            "Day of month and weekday must both hold, so it is a calendar rule: a cron"
            " rule would run on either."
        )


def add_interval(
    draft: ActionDraft, every: str, defaults: Defaults, *, last_run_at: datetime | None
) -> None:
    """Let the action of *draft* be due on the grid of *every*."""
    when: dict[str, JsonValue] = {"every": every, "timezone": defaults.timezone}
    begins = "the post"
    if last_run_at is not None:
        anchor = last_run_at.astimezone(UTC).replace(microsecond=0)
        begins = f"its last run there, {anchor:%Y-%m-%d %H:%M:%S}Z"
        when["anchor"] = anchor.isoformat()
    draft.document["when"] = when
    draft.differences.append(
        f"It runs on a fixed grid from {begins}, not so long after each last run."
    )


def _write(spec: Cronspec) -> str:
    if isinstance(spec, str):
        return spec
    if isinstance(spec, int):
        return str(spec)
    return ",".join(str(number) for number in sorted(spec))


def _read(text: str, every: frozenset[int]) -> frozenset[int]:
    """Return the numbers of a field, as Celery's parser does."""
    found: set[int] = set()
    for term in text.split(","):
        match = _TERM.fullmatch(term)
        if match is None or (match["step"] and match["first"] and not match["last"]):
            msg = f"Celery cannot read {term!r} in a crontab. Correct the entry first."
            raise CannotBeError(msg)
        numbers = _expand(match, every)
        found.update(numbers[:: _read_step(match["step"], term)])
    return frozenset(found)


def _expand(match: re.Match[str], every: frozenset[int]) -> list[int]:
    low, high = min(every), max(every)
    if match["star"]:
        return list(range(low, high + 1))
    first = _read_number(match["first"], low, high)
    last = _read_number(match["last"] or match["first"], low, high)
    if last < first:
        return [*range(first, high + 1), *range(low, last + 1)]
    return list(range(first, last + 1))


def _read_number(word: str, low: int, high: int) -> int:
    number = int(word) if word.isdecimal() else _NAMES.get(word[:3].lower())
    if number is None or not low <= number <= high:
        msg = f"Celery refuses {word!r} in a crontab. Correct the entry first."
        raise CannotBeError(msg)
    return number


def _read_step(text: str | None, term: str) -> int:
    step = 1 if text is None else int(text) if text.isdecimal() else 0
    if step < 1:
        msg = f"{term!r} has a step that is none. Correct the entry first."
        raise CannotBeError(msg)
    return step
