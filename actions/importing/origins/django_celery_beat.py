"""Periodic tasks of django-celery-beat. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from actions.importing.origins.celery_schedules import (
    add_crontab,
    add_grid,
    add_interval,
    refuse_solar,
)
from actions.importing.origins.clock_times import read_interval
from actions.importing.origins.imported import (
    ActionDraft,
    Table,
    read_schedule,
    refuse,
    write_instant,
)
from actions.importing.origins.tasks import run_task

_OPTIONS = ("queue", "priority", "exchange", "routing_key")


def read_enabled(draft: ActionDraft, value: Any) -> None:
    """Let what is disabled not be active; None means enabled."""
    if value is not None and not value:
        draft.switch_off("disabled there")


def _read_schedule(draft: ActionDraft, row: Mapping[str, Any] | None) -> None:
    if row is None:
        refuse("It has no schedule. Give it one, or delete it.")
    kind = draft.fields["kind"]
    if kind == "crontab":
        add_crontab(draft, row, str(row["timezone"]))
    elif kind == "solar":
        refuse_solar(draft, row)
    elif kind == "clocked":
        instant = _read_instant(row["clocked_time"])
        assert instant is not None  # the column takes no NULL
        draft.document["when"] = draft.make_due_date(
            instant.astimezone(UTC), write_instant(instant), "Delete the entry"
        )
    else:
        _read_interval(draft, int(row["every"]), str(row["period"]))


def _read_interval(draft: ActionDraft, every: int, period: str) -> None:
    """Days are those of the calendar: whoever writes 3 means the same time of day."""
    seconds = timedelta(**{period: every}).total_seconds()
    names = ("last_run_at", "start_time")
    known = (_read_instant(draft.fields.get(name)) for name in names)
    begins = next(filter(None, known), None)
    if period != "days":
        add_interval(draft, seconds, begins)
        return
    draft.rule = f"every {every} day{'' if every == 1 else 's'}"
    read_interval(seconds)
    add_grid(draft, f"P{every}D", begins)
    draft.differences.append(
        f"A day is one of the calendar of {draft.defaults.timezone}, so its time of day"
        f" stays; there it is 24 hours (to keep that: PT{every * 24}H)."
    )


def _read_start(draft: ActionDraft, value: Any) -> None:
    instant = _read_instant(value)
    if instant is not None and draft.fields["kind"] != "clocked":
        draft.document["starts_at"] = write_instant(instant)


def _read_end(draft: ActionDraft, value: Any) -> None:
    instant = _read_instant(value)
    if instant is not None:
        draft.document["ends_at"] = write_instant(instant)


def _read_task(draft: ActionDraft, task: object) -> None:
    row = draft.fields
    options = {name: row.get(name) for name in _OPTIONS}
    options["headers"] = json.loads(row.get("headers") or "{}")
    options["expires"] = row.get("expire_seconds")
    args, kwargs = json.loads(row["args"] or "[]"), json.loads(row["kwargs"] or "{}")
    run_task(draft, task, args, kwargs, options)


def _read_one_off(draft: ActionDraft, value: Any) -> None:
    """Replace a rule by its next occurrence."""
    fields = draft.fields
    if not value or fields["kind"] == "clocked":
        return
    if fields.get("last_run_at") and not fields["enabled"]:
        refuse("It ran once, as it should. Delete the entry.")
    now = draft.defaults.now
    instant = read_schedule(draft.document, now).next_from(now)
    if instant is None:
        refuse("It is over: it is not due any more. Leave it out.")
    for bound in ("starts_at", "ends_at"):
        draft.document.pop(bound, None)
    due_date = write_instant(instant)
    zone = fields["schedule"].get("timezone") or draft.defaults.timezone
    draft.document["when"] = {"due_date": due_date, "timezone": str(zone)}
    draft.other_clock = None
    draft.differences = [
        f"It runs once, so its next occurrence is the due date: {due_date}."
    ]


def _read_description(draft: ActionDraft, value: Any) -> None:
    if text := str(value or "").strip():
        draft.remarks.append(f"Its description is not kept: {text[:200]}")


def _read_instant(value: object) -> datetime | None:
    """Return an instant as a driver gives it; Django writes UTC without an offset."""
    if value is None or value == "":
        return None
    read = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


#: A row of ``django_celery_beat_periodictask``; of its schedule the kind (interval,
#: crontab, solar, clocked; None: it has none) and the row.
DJANGO_CELERY_BEAT: Table = {
    "enabled": read_enabled,
    "schedule": _read_schedule,
    "start_time": _read_start,
    "expires": _read_end,
    "task": _read_task,
    "one_off": _read_one_off,
    "description": _read_description,
}
