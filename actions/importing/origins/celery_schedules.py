"""
The schedules of Celery, wherever they are kept: crontab, interval, sun. Pure.

celery beat, django-celery-beat and redbeat run the same classes, so one module says
what those become, and the tables of the first two are here. A crontab of theirs is due
on days that match the day of the month *and* the weekday.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import JsonValue

from actions.importing.origins.clock_times import (
    MONTH_NAMES,
    WEEKDAY_NAMES,
    Dialect,
    read_interval,
)
from actions.importing.origins.imported import (
    ActionDraft,
    Table,
    read_schedule,
    refuse,
    write_instant,
)
from actions.importing.origins.tasks import run_task
from models.fields.duration import write_elapsed
from models.operation_state import Overlap

_MINUTE_S = 60

BOTH_DAYS = (
    "Day of month and weekday must both hold, so it is a calendar rule: a cron rule"
    " would run on either."
)

#: In the order of cron.
CRONTAB = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")

_DIALECT = Dialect(
    "Celery refuses {} in a crontab. Correct the entry first.",
    names=(WEEKDAY_NAMES | MONTH_NAMES,) * 5,
    wraps=True,
    letters=3,
)


def add_crontab(
    draft: ActionDraft, fields: Mapping[str, Any], timezone: str | None
) -> None:
    """
    Let the action of *draft* be due when a crontab of Celery is.

    Args:
        draft: Gets ``when``, and what differs.
        fields: By the names of CRONTAB: text, one number, or several.
        timezone: None: the default.

    Raises:
        CannotBeError: If Celery cannot read it either.
    """
    texts = [_write(fields.get(name, "*")) for name in CRONTAB]
    draft.rule = " ".join([*texts, *filter(None, [timezone])])
    texts = [text.replace(" ", "") for text in texts]
    clock = replace(_DIALECT.read_fields(texts), written=" ".join(texts))
    when = clock.make_rule(timezone or draft.defaults.timezone)
    draft.document["when"] = when
    draft.other_clock = (
        "Beat runs what is skipped at a later clock time, and what comes twice once"
        " (docs/time.md)."
    )
    if "calendar" in when:
        draft.differences.append(BOTH_DAYS)


def add_interval(draft: ActionDraft, seconds: float, begins: datetime | None) -> None:
    """
    Let the action of *draft* be due on the grid of an interval.

    Args:
        draft: Gets ``when``, and what differs.
        seconds: After the last run there.
        begins: Aware; from it the grid goes on. None: the post.

    Raises:
        CannotBeError: If the interval is too short.
    """
    draft.rule = f"every {seconds:g} s"
    add_grid(draft, write_elapsed(read_interval(seconds)), begins)
    if seconds < _MINUTE_S:
        # Where such a grid begins makes no difference; that its runs may overlap, which
        # is not our default there, does.
        draft.differences.pop()
        draft.document["overlap"] = Overlap.ALLOW.value


def add_grid(draft: ActionDraft, every: str, begins: datetime | None) -> None:
    """Let the action of *draft* be due *every* so long; see ``add_interval``."""
    when: dict[str, JsonValue] = {"every": every, "timezone": draft.defaults.timezone}
    told = "the post"
    if begins is not None:
        anchor = begins.astimezone(UTC).replace(microsecond=0)
        told = f"its last run there, {anchor:%Y-%m-%d %H:%M:%S}Z"
        when["anchor"] = anchor.isoformat()
    draft.document["when"] = when
    draft.differences.append(
        f"It runs on a fixed grid from {told}, not so long after each last run."
    )


def refuse_solar(draft: ActionDraft, schedule: Mapping[str, Any]) -> None:
    """Say what to do instead of following the sun."""
    place = float(schedule["latitude"]), float(schedule["longitude"])
    draft.rule = f"{schedule['event']} at {place[0]}, {place[1]}"
    refuse(
        "No rule follows the sun. Let a program of yours post a due date for each day,"
        " or choose a time of day that always suits."
    )


def refuse_unknown(draft: ActionDraft, text: str) -> None:
    """Say what to do instead of a schedule of the project's own."""
    draft.rule = text
    refuse(
        f"{text[:80]} is not a schedule of Celery's own. Write the action by hand, or"
        " let a program of yours post due dates."
    )


def _write(spec: Any) -> str:
    """Return a field of a crontab as text."""
    if isinstance(spec, str | int):
        return str(spec)
    return ",".join(str(number) for number in sorted(spec))


def _read_zone(draft: ActionDraft, timezone: str | None) -> None:
    if timezone is not None:
        draft.defaults = replace(draft.defaults, timezone=timezone)


def _read_schedule(draft: ActionDraft, schedule: Mapping[str, Any]) -> None:
    kind = schedule["kind"]
    if kind == "crontab":
        add_crontab(draft, schedule, draft.fields["timezone"])
    elif kind == "interval":
        add_interval(draft, float(schedule["seconds"]), None)
    elif kind == "solar":
        refuse_solar(draft, schedule)
    else:
        refuse_unknown(draft, str(schedule["text"]))


def _read_task(draft: ActionDraft, task: object) -> None:
    fields = draft.fields
    options = dict(fields.get("options") or {})
    if isinstance(expires := options.get("expires"), str):
        options["expires"] = _read_instant(expires)
    run_task(draft, task, fields.get("args") or (), fields.get("kwargs"), options)
    if fields["schedule"]["kind"] == "crontab" and fields["timezone"] is None:
        draft.remarks.append(
            f"Read in {draft.defaults.timezone}: the application goes by the zone of"
            " its host (--timezone)."
        )


#: An entry of ``beat_schedule``, as celery_module_child.py writes it, with the zone of
#: its application (None: that of the host).
CELERY_BEAT: Table = {
    "timezone": _read_zone,
    "schedule": _read_schedule,
    "task": _read_task,
}

_OPTIONS = ("queue", "priority", "exchange", "routing_key")


def read_enabled(draft: ActionDraft, value: Any) -> None:
    """Let what is disabled not be active; None means enabled."""
    if value is not None and not value:
        draft.switch_off("disabled there")


def _read_kind(draft: ActionDraft, row: Mapping[str, Any] | None) -> None:
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
    begins = _read_instant(
        draft.fields.get("last_run_at") or draft.fields.get("start_time")
    )
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
    if instant and draft.fields["kind"] != "clocked":
        draft.document["starts_at"] = write_instant(instant)


def _read_end(draft: ActionDraft, value: Any) -> None:
    if instant := _read_instant(value):
        draft.document["ends_at"] = write_instant(instant)


def _read_row_task(draft: ActionDraft, task: object) -> None:
    row = draft.fields
    options = {name: row.get(name) for name in _OPTIONS}
    headers = json.loads(row.get("headers") or "{}")
    options |= {"headers": headers, "expires": row.get("expire_seconds")}
    args, kwargs = json.loads(row["args"] or "[]"), json.loads(row["kwargs"] or "{}")
    run_task(draft, task, args, kwargs, options)


def _read_one_off(draft: ActionDraft, value: Any) -> None:
    """Replace a rule by its next occurrence."""
    fields = draft.fields
    if not value or fields["kind"] == "clocked":
        return
    # Beat counts the run at once, and disables the entry when it is due again.
    has_run = fields.get("last_run_at") and not fields["enabled"]
    if has_run or fields.get("total_run_count"):
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
    if not value:
        return None
    read = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


#: A row of ``django_celery_beat_periodictask``; of its schedule the kind (interval,
#: crontab, solar, clocked; None: it has none) and the row.
DJANGO_CELERY_BEAT: Table = {
    "enabled": read_enabled,
    "schedule": _read_kind,
    "start_time": _read_start,
    "expires": _read_end,
    "task": _read_row_task,
    "one_off": _read_one_off,
    "description": _read_description,
}
