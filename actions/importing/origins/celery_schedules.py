"""
The schedules of Celery, wherever they are kept: crontab, interval, sun. Pure.

celery beat, django-celery-beat and redbeat run the same classes, so one module says
what those become. A crontab of theirs is due on days that match the day of the month
*and* the weekday.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from actions.importing.origins.clock_times import (
    MONTH_NAMES,
    WEEKDAY_NAMES,
    Dialect,
    read_interval,
)
from actions.importing.origins.imported import ActionDraft, Table, refuse
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
    unreadable="Celery cannot read {} in a crontab. Correct the entry first.",
    unknown="Celery refuses {} in a crontab. Correct the entry first.",
    stepless="{} has a step that is none. Correct the entry first.",
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
    expires = options.get("expires")
    if isinstance(expires, str):
        instant = datetime.fromisoformat(expires)
        options["expires"] = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
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
