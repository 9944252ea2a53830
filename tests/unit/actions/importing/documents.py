"""What imported documents are: their rules, and when they are due."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from actions.importing.origins.imported import (
    Defaults,
    Entry,
    Imported,
    Table,
    import_each,
    read_schedule,
)
from actions.when.searching import find_occurrences
from models.door.documents import ReadContext, read_action_object
from models.fields.task_rules import TaskRules

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DEFAULTS = Defaults(NOW, timezone="Europe/Paris", queue="celery", task="run_it")

_RULES = TaskRules("minutehand")


def import_one(
    entry: Entry | Mapping[str, Any], table: Table, defaults: Defaults = DEFAULTS
) -> Imported:
    """Import an entry, or one of these fields, alone."""
    whole = entry if isinstance(entry, Entry) else Entry("it", entry)
    (found,) = import_each([whole], table, defaults)
    return found


def get_document(found: Imported) -> Any:
    """Return the document of an entry that can be."""
    assert found.document is not None, found.notes
    return found.document


def get_when(found: Imported) -> Any:
    """Return the ``when`` of a document that ``actions post`` accepts."""
    document = get_document(found)
    read_action_object(dict(document), ReadContext(task_rules=_RULES))
    return document["when"]


def get_step(found: Imported) -> Any:
    """Return the ``run_task`` of a document."""
    return get_document(found)["operations"]["run_task"]


def find_first(
    document: Mapping[str, Any], count: int, now: datetime = NOW
) -> list[datetime]:
    """Return the first occurrences from *now* on."""
    last = datetime.max.replace(tzinfo=UTC)
    return find_occurrences(read_schedule(document, now), now, last, limit=count)
