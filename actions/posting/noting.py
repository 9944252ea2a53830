"""
What the record of changes says of an action, and what a trace does.

The documents themselves are kept as revisions, which the record names; what it repeats
of them is short, and never a part that may hold a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import JsonValue

import tracing
from models.database.engine import before_commit
from models.database.journal import note_change
from models.door.differences import DifferenceKind, find_differences
from models.revision import Change

#: What the record calls an action.
KIND = "action"

#: The longest text that the record repeats.
_LONGEST = 200

#: The most values that the record repeats of one change.
_MOST = 50

#: Parts of a document whose values may be secrets: a key in an address, a password
#: among the arguments of a task.
_SECRET = ("/operations/call_webhook", "/operations/run_task")

#: Stands for a value that the record does not repeat; the revision has it.
_SEE_REVISION = "(see the revision)"


def note_posted(
    connection: sa.Connection,
    app: str,
    uid: str,
    document: Mapping[str, Any],
    *,
    note: str | None,
) -> None:
    """Note that an action was posted to *app*."""
    after = {"revision": 1, "name": document["name"], "active": document["active"]}
    note_change(connection, KIND, uid, Change.POSTED, app=app, after=after, note=note)
    _trace(connection, app, uid, 1)


def note_replaced(
    connection: sa.Connection,
    old: sa.Row[Any],
    document: Mapping[str, Any],
    change: Change,
    *,
    note: str | None,
) -> None:
    """
    Note that the document of an action was replaced.

    Args:
        old: Its row as it was.
        document: The new one.
        change: What was done.
    """
    _trace(connection, old.app, old.uid, old.revision + 1)
    found = find_differences(old.document, document)
    had = [each for each in found if each.kind is not DifferenceKind.ADDED][:_MOST]
    has = [each for each in found if each.kind is not DifferenceKind.REMOVED][:_MOST]
    before = {"revision": old.revision}
    before |= {each.pointer: _shorten(each.pointer, each.before) for each in had}
    after = {"revision": old.revision + 1}
    after |= {each.pointer: _shorten(each.pointer, each.after) for each in has}
    told: dict[str, Any] = {"before": before, "after": after, "note": note}
    note_change(connection, KIND, old.uid, change, app=old.app, **told)


def _trace(connection: sa.Connection, app: str, uid: str, revision: int) -> None:
    """Begin a span of what is posted, which ends if that is committed."""
    span = tracing.begin(
        "post",
        at=tracing.find_post(uid, revision),
        links=[tracing.find_current()],
        app=app,
        action_uid=uid,
        revision=revision,
    )
    if span.place is not None:
        spans = before_commit(connection, _end_spans)
        if len(spans) < tracing.MOST:
            spans.append(span)


def _end_spans(_connection: sa.Connection, spans: list[tracing.TraceSpan]) -> None:
    for span in spans:
        span.end()


def note_deleted(
    connection: sa.Connection, row: sa.Row[Any], *, note: str | None
) -> None:
    """Note that the action of *row*, as it was, was deleted."""
    before, change = {"revision": row.revision, "name": row.name}, Change.DELETED
    note_change(
        connection, KIND, row.uid, change, app=row.app, before=before, note=note
    )


def _shorten(pointer: str, value: JsonValue) -> JsonValue:
    is_secret = pointer.startswith(_SECRET) or "/operations".startswith(pointer)
    is_long = isinstance(value, str) and len(value) > _LONGEST
    if is_secret or is_long or isinstance(value, dict | list):
        return _SEE_REVISION
    return value
