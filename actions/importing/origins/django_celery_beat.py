"""Periodic tasks of django-celery-beat. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from actions.importing.origins.celery_schedules import (
    CelerySchedule,
    Crontab,
    Interval,
    Solar,
    add_interval,
    schedule_as,
)
from actions.importing.origins.durations import read_interval
from actions.importing.origins.imported import ActionDraft, CannotBeError, Defaults
from actions.importing.origins.tasks import Task, run_task
from actions.occurrences import make_schedule
from models.door.documents import read_action_object
from models.timing import make_timing

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class DjangoEntry:
    """
    A row of ``django_celery_beat_periodictask`` with its schedule; instants are aware.

    Args:
        name: Unique there.
        task: What it sends; of the options none is None.
        schedule: When; an instant is that of a ClockedSchedule.
        days: Of an IntervalSchedule that counts in days. None: it does not.
        one_off: Whether it runs once.
        enabled: Whether it runs at all.
        start_time: It does not run before; None: at once.
        expires: It does not run from then on; None: for ever.
        last_run_at: None: it has not run yet.
        description: For people; may be empty.
    """

    name: str
    task: Task
    schedule: CelerySchedule | datetime
    days: int | None = None
    one_off: bool = False
    enabled: bool = True
    start_time: datetime | None = None
    expires: datetime | None = None
    last_run_at: datetime | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class DjangoRow:
    """
    A row of ``django_celery_beat_periodictask``, as it is stored.

    Args:
        task: Its columns.
        kind: Of its schedule: interval, crontab, solar or clocked. None: it has none.
        schedule: The columns of its schedule. None: it has none.
    """

    task: Mapping[str, Any]
    kind: str | None
    schedule: Mapping[str, Any] | None

    @property
    def title(self) -> str:
        """Return the name of the task."""
        return str(self.task["name"])

    def read(self) -> DjangoEntry:
        """
        Return what it means.

        Raises:
            CannotBeError: If it has no schedule.
        """
        row = self.task
        options = {
            name: row.get(name)
            for name in ("queue", "priority", "exchange", "routing_key")
        }
        options["headers"] = json.loads(row.get("headers") or "{}")
        options["expires"] = row.get("expire_seconds")
        task = Task(
            str(row["task"]),
            json.loads(row["args"] or "[]"),
            json.loads(row["kwargs"] or "{}"),
            options,
        )
        schedule, days = self._read_schedule()
        return DjangoEntry(
            self.title,
            task,
            schedule,
            days,
            one_off=bool(row.get("one_off")),
            enabled=bool(row["enabled"]),
            start_time=_read_time(row.get("start_time")),
            expires=_read_time(row.get("expires")),
            last_run_at=_read_time(row.get("last_run_at")),
            description=str(row.get("description") or "").strip(),
        )

    def _read_schedule(self) -> tuple[CelerySchedule | datetime, int | None]:
        """Return the schedule, and its days if it is an interval of days."""
        if self.schedule is None:
            raise CannotBeError("It has no schedule. Give it one, or delete it.")
        row = self.schedule
        if self.kind == "crontab":
            names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
            fields = {name: str(row[name]) for name in names}
            return Crontab(**fields, timezone=str(row["timezone"])), None
        if self.kind == "solar":
            place = float(row["latitude"]), float(row["longitude"])
            return Solar(str(row["event"]), *place), None
        if self.kind == "clocked":
            clocked = _read_time(row["clocked_time"])
            assert clocked is not None  # the column takes no NULL
            return clocked, None
        every, period = int(row["every"]), str(row["period"])
        seconds = timedelta(**{period: every}).total_seconds()
        return Interval(seconds), every if period == "days" else None


def _read_time(value: object) -> datetime | None:
    """Return an instant as a driver gives it; Django writes UTC without an offset."""
    if value is None or value == "":
        return None
    read = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def fill_from_django(draft: ActionDraft, row: DjangoRow, defaults: Defaults) -> None:
    """Write the action that does what the task of *row* did; see ``import_each``."""
    entry = row.read()
    if not entry.enabled:
        draft.document["active"] = False
        draft.remarks.append("It is disabled there, so it is not active here.")
    _add_schedule(draft, entry, defaults)
    if entry.start_time is not None and not isinstance(entry.schedule, datetime):
        draft.document["starts_at"] = _write(entry.start_time)
    if entry.expires is not None:
        draft.document["ends_at"] = _write(entry.expires)
    run_task(draft, entry.task, defaults)
    if entry.one_off and not isinstance(entry.schedule, datetime):
        _run_once(draft, entry, defaults)
    if entry.description:
        draft.remarks.append(f"Its description is not kept: {entry.description[:200]}")


def _add_schedule(draft: ActionDraft, entry: DjangoEntry, defaults: Defaults) -> None:
    if isinstance(entry.schedule, datetime):
        draft.rule = f"at {_write(entry.schedule)}"
        _add_due_date(draft, entry.schedule, defaults)
    elif entry.days is not None:
        _add_days(draft, entry, defaults)
    else:
        begins = entry.last_run_at or entry.start_time
        schedule_as(draft, entry.schedule, defaults, last_run_at=begins)


def _add_due_date(draft: ActionDraft, instant: datetime, defaults: Defaults) -> None:
    if instant <= defaults.now:
        msg = f"{_write(instant)} has passed. Delete the entry, or set a new date."
        raise CannotBeError(msg)
    if instant.microsecond:
        draft.differences.append("It runs on the whole second before.")
    draft.document["when"] = {
        "due_date": _write(instant),
        "timezone": defaults.timezone,
    }


def _add_days(draft: ActionDraft, entry: DjangoEntry, defaults: Defaults) -> None:
    """Days of the calendar: whoever writes 3 days means the same time of day."""
    days = entry.days
    assert days is not None  # the caller asked
    read_interval(days * _DAY_S)
    draft.rule = f"every {days} day{'' if days == 1 else 's'}"
    begins = entry.last_run_at or entry.start_time
    add_interval(draft, f"P{days}D", defaults, last_run_at=begins)
    draft.differences.append(
        f"A day is one of the calendar of {defaults.timezone}, so its time of day"
        f" stays; there it is 24 hours (to keep that: PT{days * 24}H)."
    )


def _run_once(draft: ActionDraft, entry: DjangoEntry, defaults: Defaults) -> None:
    """Replace a rule by its next occurrence."""
    if entry.last_run_at is not None and not entry.enabled:
        raise CannotBeError("It ran once, as it should. Delete the entry.")
    action = read_action_object({"name": "once", **draft.document})
    timing = make_timing(action, holidays={}, created_at=defaults.now)
    assert timing is not None  # it follows the clock
    instant = make_schedule(timing).next_from(defaults.now)
    if instant is None:
        raise CannotBeError("It is over: it is not due any more. Leave it out.")
    zone = defaults.timezone
    if isinstance(entry.schedule, Crontab):
        zone = entry.schedule.timezone or zone
    for bound in ("starts_at", "ends_at"):
        draft.document.pop(bound, None)
    draft.document["when"] = {"due_date": _write(instant), "timezone": zone}
    draft.other_clock = None
    draft.differences = [
        f"It runs once, so its next occurrence is the due date: {_write(instant)}."
    ]


def _write(instant: datetime) -> str:
    return instant.astimezone(UTC).replace(microsecond=0).isoformat()
