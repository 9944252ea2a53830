"""Entries of ``beat_schedule`` of a Celery application. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from actions.importing.origins.celery_schedules import (
    CelerySchedule,
    Crontab,
    Interval,
    Solar,
    Unknown,
    schedule_as,
)
from actions.importing.origins.imported import ActionDraft, CannotBeError, Defaults
from actions.importing.origins.tasks import Task, run_task


@dataclass(frozen=True, slots=True)
class BeatEntry:
    """
    An entry of ``beat_schedule``.

    Args:
        name: Its key.
        task: What it sends; ``expires`` may be an instant's text with an offset.
        args: As JSON has them, or marked as unreadable.
        kwargs: As *args*.
        options: Of ``apply_async``, and the queue that its application routes it to.
        schedule: Its kind and fields, as the reader wrote them.
        timezone: Of the application. None: that of the host.
        problem: Why it could not be read; empty if it could.
    """

    name: str
    task: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any]
    schedule: Mapping[str, Any]
    timezone: str | None
    problem: str = ""


def fill_from_beat(draft: ActionDraft, entry: BeatEntry, defaults: Defaults) -> None:
    """Write the action that does what *entry* did; see ``import_each``."""
    if entry.problem:
        raise CannotBeError(entry.problem)
    if entry.timezone is not None:
        defaults = replace(defaults, timezone=entry.timezone)
    schedule_as(draft, _read_schedule(entry), defaults)
    options = dict(entry.options)
    expires = options.get("expires")
    if isinstance(expires, str):
        instant = datetime.fromisoformat(expires)
        options["expires"] = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    run_task(draft, Task(entry.task, entry.args, entry.kwargs, options), defaults)
    if entry.schedule["kind"] == "crontab" and entry.timezone is None:
        draft.remarks.append(
            f"Read in {defaults.timezone}: the application goes by the zone of its host"
            " (--timezone)."
        )


def _read_schedule(entry: BeatEntry) -> CelerySchedule:
    fields = dict(entry.schedule)
    kind = fields.pop("kind")
    if kind == "crontab":
        return Crontab(**fields, timezone=entry.timezone)
    if kind == "interval":
        return Interval(float(fields["seconds"]))
    if kind == "solar":
        place = float(fields["latitude"]), float(fields["longitude"])
        return Solar(str(fields["event"]), *place)
    return Unknown(str(fields["text"]))
