"""Entries of redbeat, as it keeps them in Redis. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from dateutil.rrule import weekday

from actions.importing.origins.celery_schedules import (
    add_crontab,
    add_interval,
    read_enabled,
    refuse_unknown,
)
from actions.importing.origins.clock_times import name_offset
from actions.importing.origins.imported import (
    UNREADABLE_ERRORS,
    ActionDraft,
    Entry,
    Stored,
    Table,
    explain_unreadable,
    refuse,
)
from actions.importing.origins.rrules import Recurrence, add_recurrence
from actions.importing.origins.tasks import make_plain, run_task
from models.when import MOST_RULES

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
    kind, state = _open(schedule)
    if kind == "crontab":
        add_crontab(draft, state, None)
        draft.remarks.append(
            f"Read in {draft.defaults.timezone}; redbeat reads it in the timezone of"
            " its application (--timezone)."
        )
    elif kind == "interval":
        kind_of_last, last = _open(draft.fields["meta"].get("last_run_at"))
        begins = _read_time(last) if kind_of_last == "datetime" else None
        add_interval(draft, float(state["every"]), begins)
    elif kind == "rrule":
        rule = _read_rrule(state)
        draft.rule = str(rule)
        add_recurrence(draft, rule)
        _explain(draft, rule)
    else:
        refuse_unknown(draft, kind or json.dumps(schedule)[:80])


def _explain(draft: ActionDraft, rule: Recurrence) -> None:
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
    options = {}
    for name, value in (fields.get("options") or {}).items():
        kind, state = _open(value)
        options[name] = _read_time(state) if kind == "datetime" else value
    args, kwargs = fields.get("args") or (), fields.get("kwargs") or {}
    run_task(draft, task, make_plain(args), make_plain(kwargs), options)


def _read_rrule(value: Mapping[str, Any]) -> Recurrence:
    dtstart = _read_instant(value, "dtstart")
    if dtstart is None:
        refuse("It has no dtstart. Save the entry once more first.")
    listed = {name: value[name] for name in _BY if value.get(name) is not None}
    by = {
        name: tuple(map(_read_part, each if isinstance(each, list) else [each]))
        for name, each in listed.items()
    }
    week = None if value.get("wkst") is None else _read_part(value["wkst"])
    return Recurrence(
        freq=int(value["freq"]),
        dtstart=dtstart,
        zone=name_offset(dtstart.utcoffset() or timedelta()),
        interval=int(value.get("interval") or 1),
        wkst=None if week is None else getattr(week, "weekday", week),
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


def _read_part(value: Any) -> Any:
    kind, state = _open(value)
    if kind == "weekday":
        return weekday(int(state["wkday"]), state.get("n"))
    return int(value)


def _open(value: Any) -> tuple[str, Any]:
    """Return what class *value* was of, and what it held; "" and itself for JSON."""
    return (value.kind, value.state) if isinstance(value, Stored) else ("", value)


def _read_time(value: Mapping[str, Any]) -> datetime:
    parts = {name: part for name, part in value.items() if name != "timezone"}
    zone = value.get("timezone", "UTC")
    # a number is what redbeat writes for an offset, in seconds
    named = (
        ZoneInfo(zone) if isinstance(zone, str) else timezone(timedelta(seconds=zone))
    )
    return datetime(**parts, tzinfo=named)


#: A key of redbeat: its definition, and its ``meta``.
REDBEAT: Table = {
    "enabled": read_enabled,
    "schedule": _read_schedule,
    "task": _read_task,
}
