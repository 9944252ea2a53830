"""What imported documents are: their rules, and when they are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from actions.importing.origins.imported import (
    ActionDraft,
    Defaults,
    Imported,
    import_each,
)
from actions.occurrences import make_schedule
from models.door.documents import read_action_object
from models.fields.task_rules import TaskRules
from models.timing import make_timing

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DEFAULTS = Defaults(NOW, timezone="Europe/Paris", queue="celery", task="run_it")

_RULES = TaskRules("minutehand")
_Entry = TypeVar("_Entry")


def import_one(
    entry: _Entry,
    fill: Callable[[ActionDraft, _Entry, Defaults], None],
    defaults: Defaults = DEFAULTS,
) -> Imported:
    """Import *entry* alone, under the name "it"."""
    (found,) = import_each([entry], lambda _: "it", fill, defaults)
    return found


def get_when(found: Imported) -> Any:
    """Return the ``when`` of a document that ``actions post`` accepts."""
    assert found.document is not None, found.notes
    read_action_object(dict(found.document), task_rules=_RULES)
    return found.document["when"]


def get_step(found: Imported) -> Any:
    """Return the ``run_task`` of a document."""
    assert found.document is not None, found.notes
    operations: Any = found.document["operations"]
    return operations["run_task"]


def find_first(
    document: Mapping[str, Any], count: int, now: datetime = NOW
) -> list[datetime]:
    """Return the first occurrences from *now* on."""
    timing = make_timing(
        read_action_object(dict(document)), holidays={}, created_at=now
    )
    assert timing is not None
    schedule = make_schedule(timing)
    found: list[datetime] = []
    start = now
    while len(found) < count and (due_at := schedule.next_from(start)) is not None:
        found.append(due_at)
        start = due_at + timedelta(seconds=1)
    return found
