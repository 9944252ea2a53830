"""Entries of redbeat, as it keeps them in Redis. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from dateutil.rrule import weekday

from actions.importing.origins.celery_schedules import (
    Crontab,
    Interval,
    Unknown,
    schedule_as,
)
from actions.importing.origins.durations import name_offset
from actions.importing.origins.imported import ActionDraft, CannotBeError, Defaults
from actions.importing.origins.rrules import Recurrence, add_recurrence
from actions.importing.origins.tasks import UNREADABLE, Task, run_task
from models.when import MOST_RULES

_BY = (
    *("bysetpos", "bymonth", "bymonthday", "byyearday", "byeaster", "byweekno"),
    *("byweekday", "byhour", "byminute", "bysecond"),
)


@dataclass(frozen=True, slots=True)
class RedbeatEntry:
    """
    A key of redbeat.

    Args:
        key: With its prefix.
        definition: JSON text of its hash field ``definition``.
        meta: JSON text of its field ``meta``. None: it has not run yet.
    """

    key: str
    definition: str
    meta: str | None = None

    @property
    def title(self) -> str:
        """Return its name, or its key if it cannot be read."""
        try:
            return str(json.loads(self.definition)["name"])
        except (ValueError, LookupError, TypeError):
            return self.key


def fill_from_redbeat(
    draft: ActionDraft, entry: RedbeatEntry, defaults: Defaults
) -> None:
    """Write the action that does what *entry* did; see ``import_each``."""
    definition = json.loads(entry.definition)
    meta = json.loads(entry.meta) if entry.meta else {}
    if not definition.get("enabled", True):
        draft.document["active"] = False
        draft.remarks.append("It is disabled there, so it is not active here.")
    _add_schedule(draft, definition["schedule"], meta, defaults)
    options = {
        name: _read_time(value) if _is(value, "datetime") else value
        for name, value in (definition.get("options") or {}).items()
    }
    task = Task(
        str(definition["task"]),
        _mark(definition.get("args") or ()),
        _mark(definition.get("kwargs") or {}),
        options,
    )
    run_task(draft, task, defaults)


def _add_schedule(
    draft: ActionDraft, schedule: Any, meta: Mapping[str, Any], defaults: Defaults
) -> None:
    last = meta.get("last_run_at")
    last_run_at = None
    if last is not None and _is(last, "datetime"):
        last_run_at = _read_time(last)
    if _is(schedule, "crontab"):
        names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        crontab = Crontab(**{name: schedule[name] for name in names})
        schedule_as(draft, crontab, defaults)
        draft.remarks.append(
            f"Read in {defaults.timezone}; redbeat reads it in the timezone of its"
            " application (--timezone)."
        )
    elif _is(schedule, "interval"):
        interval = Interval(float(schedule["every"]))
        schedule_as(draft, interval, defaults, last_run_at=last_run_at)
    elif _is(schedule, "rrule"):
        rule = _read_rrule(schedule)
        draft.rule = str(rule)
        add_recurrence(draft.document, rule, now=defaults.now)
        _explain(draft, rule)
    else:
        schedule_as(draft, Unknown(json.dumps(schedule)[:80]), defaults)


def _explain(draft: ActionDraft, rule: Recurrence) -> None:
    if rule.zone != "UTC":
        draft.remarks.append(
            f"redbeat keeps dtstart at {rule.dtstart:%z} all year, so {rule.zone}; for"
            " local times write the zone's name and add an hour where it fits."
        )
    when = draft.document["when"]
    if isinstance(when, list) and len(when) > 1:
        draft.remarks.append(f"It takes {len(when)} rules, of {MOST_RULES} at most.")


def _read_rrule(value: Mapping[str, Any]) -> Recurrence:
    dtstart = _read_instant(value, "dtstart")
    if dtstart is None:
        raise CannotBeError("It has no dtstart. Save the entry once more first.")
    by = {
        name: tuple(map(_read_part, _listed(value[name])))
        for name in _BY
        if value.get(name) is not None
    }
    offset = dtstart.utcoffset() or timedelta()
    return Recurrence(
        freq=int(value["freq"]),
        dtstart=dtstart,
        zone=name_offset(offset),
        interval=int(value.get("interval") or 1),
        wkst=None if value.get("wkst") is None else _read_week_start(value["wkst"]),
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


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _read_part(value: Any) -> Any:
    if _is(value, "weekday"):
        return weekday(int(value["wkday"]), value.get("n"))
    return int(value)


def _read_week_start(value: Any) -> int:
    return int(value["wkday"]) if _is(value, "weekday") else int(value)


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, dict) and value.get("__type__") == kind


def _read_time(value: Mapping[str, Any]) -> datetime:
    parts = {name: part for name, part in value.items() if name[0] not in "_t"}
    zone = value.get("timezone", "UTC")
    # a number is what redbeat writes for an offset, in seconds
    named = (
        ZoneInfo(zone) if isinstance(zone, str) else timezone(timedelta(seconds=zone))
    )
    return datetime(**parts, tzinfo=named)


def _mark(value: Any) -> Any:
    """Mark what redbeat turns into an object of Python, which JSON has not."""
    if isinstance(value, dict):
        if "__type__" in value:
            return {UNREADABLE: f"a {value['__type__']}"}
        return {name: _mark(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mark(each) for each in value]
    return value
