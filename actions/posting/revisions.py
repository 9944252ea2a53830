"""
Every change of a scheduled action is a new revision, and every revision is kept.

A decision about an older revision writes nothing; an operation runs the revision that
it was recorded with; ``why`` and ``audit`` read what was in effect at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NoReturn

import sqlalchemy as sa
from pydantic import JsonValue

import tracing
from actions.occurrences import Schedule, next_due_at
from models.database.engine import (
    UtcDateTime,
    before_commit,
    json_rows,
    make_rows_json,
    read_clock,
)
from models.database.journal import note_change
from models.database.lists import belongs_to
from models.database.tables import scheduled_action_revisions, scheduled_actions
from models.door.differences import DifferenceKind, find_differences
from models.errors import NotFoundError, StaleError
from models.revision import OF_DOCUMENT, Change

#: The author of changes that the scheduler makes by itself.
SCHEDULER = "scheduler"

_RESOLUTION = timedelta.resolution


def require_action(
    connection: sa.Connection, uid: str, *, app: str | None = None, lock: bool = False
) -> sa.Row[Any]:
    """
    Return the row of an action.

    Args:
        app: Uid of a small app; other apps' actions are unknown. None: of any app.
        lock: Whether against changes until the commit. Whoever changes an action locks
            the pause of its app first: see ``hold_pause``.

    Raises:
        NotFoundError: If there is no such action, or it is deleted.
    """
    kept = scheduled_actions.c
    query = sa.select(scheduled_actions).where(
        kept.uid == uid, *belongs_to(app, kept.app)
    )
    is_left = query.where(kept.deleted_at.is_(None))
    if lock:
        is_left = is_left.with_for_update(of=scheduled_actions)
    row = connection.execute(is_left).one_or_none()
    if row is None:
        refuse_action(uid, deleted=connection.execute(query).first() is not None)
    return row


def lock_actions(
    connection: sa.Connection,
    *where: sa.ColumnElement[bool],
    at_most: int | None = None,
    skip_locked: bool = False,
) -> Sequence[sa.Row[Any]]:
    """Lock and return the actions *where* this holds, in the one order of all."""
    kept = scheduled_actions.c
    return connection.execute(
        sa.select(scheduled_actions)
        .where(*where, kept.deleted_at.is_(None))
        .order_by(kept.uid)
        .limit(at_most)
        .with_for_update(of=scheduled_actions, skip_locked=skip_locked)
    ).all()


def refuse_action(uid: str, *, deleted: bool = True) -> NoReturn:
    """
    Say that there is no action *uid*, in the same words whoever asks.

    Args:
        deleted: Whether there was one.

    Raises:
        NotFoundError: Always.
    """
    msg = f"there is no scheduled action {uid!r}" + (": it was deleted" * deleted)
    raise NotFoundError(msg)


def select_document_revision(uid: sa.ColumnElement[str]) -> sa.ScalarSelect[int]:
    """
    Select the latest revision of *uid* that changed its document.

    If maintenance has pruned that one, it is the oldest that is left: all that are left
    have the same document.
    """
    kept = scheduled_action_revisions.c
    latest = sa.func.max(kept.revision).filter(kept.change.in_(sorted(OF_DOCUMENT)))
    return (
        sa.select(sa.func.coalesce(latest, sa.func.min(kept.revision)))
        .where(kept.uid == uid)
        .scalar_subquery()
    )


def fetch_document_revisions(
    connection: sa.Connection, uids: Sequence[str]
) -> dict[str, int]:
    """Return the ``document_revision`` of each of *uids*."""
    asked = [{"uid": uid} for uid in uids]
    given = json_rows(connection.dialect.name, {"uid": sa.Text()}, given=asked)
    rows = connection.execute(
        sa.select(given.c.uid, select_document_revision(given.c.uid))
    )
    return {uid: revision for uid, revision in rows if revision is not None}


def refuse_stale(
    connection: sa.Connection, uid: str, expected_revision: int | None
) -> None:
    """
    Refuse to change an action whose document is not the one that the caller has read.

    A pause, a quarantine or a new holiday makes a revision too, but the document is the
    same, so that it does not count here.

    Args:
        connection: In a transaction that has locked the action.
        expected_revision: The ``document_revision`` that was read. None: any will do.

    Raises:
        StaleError: It is another one by now.
    """
    if expected_revision is None:
        return
    selected = select_document_revision(sa.literal(uid, sa.Text))
    current = connection.execute(sa.select(selected)).scalar_one()
    if current != expected_revision:
        msg = (
            f"action {uid!r} was changed meanwhile: the revision of its document is"
            f" {current}, not {expected_revision}. Read it again, and make your change"
            " to what it is now"
        )
        raise StaleError(msg, current=current)


def start_from(
    uid: str,
    schedule: Schedule | None,
    now: datetime,
    lookback: timedelta,
    *,
    is_ticked: bool,
) -> dict[str, object]:
    """
    Return the columns of an action whose rule takes effect *now*.

    An action that is posted at 07:02 never runs for 07:00. Due dates are exempt: one
    that passed a moment ago is due at once. A quarantine ends.

    Args:
        uid: Of the action; decides the jitter.
        schedule: None: events or another action drive it.
        now: Aware UTC.
        lookback: A due date that is no older than this is still due.
        is_ticked: Whether ticks decide about it: not if it follows another action.
    """
    if schedule is None:
        effective = now
        # the tick works it out from the events
        due_at: datetime | None = now if is_ticked else None
    else:
        exempt = schedule.has_dates_only
        effective = now - lookback + _RESOLUTION if exempt else now
        start = effective - _RESOLUTION
        due_at = next_due_at(schedule, uid, after=start, effective_from=effective)
    return {
        "effective_from": effective,
        "next_due_at": due_at,
        "quarantined_at": None,
        "quarantine_reason": None,
    }


def change_action(
    connection: sa.Connection,
    uid: str,
    change: Change,
    *,
    by: str | None = None,
    note: str | None = None,
    **values: object,
) -> None:
    """Write *values* as a new revision that says *change*, who made it, and a note."""
    kept = scheduled_actions.c
    undecided_from = connection.execute(
        sa.select(kept.next_due_at).where(kept.uid == uid)
    ).scalar_one()
    revision, now = kept.revision + 1, read_clock(connection)
    update = sa.update(scheduled_actions).where(kept.uid == uid)
    connection.execute(update.values(revision=revision, updated_at=now, **values))
    since = sa.literal(undecided_from, UtcDateTime)
    insert = _insert_revisions(since, kept.uid == uid)
    connection.execute(insert, {"change": change, "by": by, "note": note})


def log_posted(
    connection: sa.Connection, uids: Sequence[str], *, by: str | None, note: str | None
) -> None:
    """
    Record new actions as their first revisions.

    Args:
        connection: In the transaction that made them.
        uids: Uids of the actions; at most a thousand.
        by: Who posted them.
    """
    insert = _insert_revisions(sa.null(), scheduled_actions.c.uid.in_(uids))
    connection.execute(insert, {"change": Change.POSTED, "by": by, "note": note})


#: Columns that a revision copies from its action.
_SAME = ("uid", "revision", "document", "timing", "active", "effective_from")


#: Actions in one statement.
_AT_ONCE = 1000


def change_actions(
    connection: sa.Connection,
    changes: Sequence[tuple[sa.Row[Any], Mapping[str, object]]],
    change: Change,
    *,
    by: str | None,
    note: str | None = None,
) -> None:
    """
    Write a new revision of each of many actions, in few statements.

    Args:
        connection: In a transaction that has locked the actions.
        changes: For each action, its row as it was, and the new values of columns:
            texts and instants.
        change: What made the new revisions, such as "paused".
        by: Who made them.
    """
    names = tuple(sorted({name for _, values in changes for name in values}))
    update, insert = _many_statements(connection.dialect.name, names)
    for start in range(0, len(changes), _AT_ONCE):
        given = [
            {"uid": row.uid, "undecided_from": row.next_due_at}
            | {name: getattr(row, name) for name in names}
            | dict(values)
            for row, values in changes[start : start + _AT_ONCE]
        ]
        rows = {"given": make_rows_json(given)}
        connection.execute(update, rows)
        connection.execute(insert, {**rows, "change": change, "by": by, "note": note})


@cache
def _many_statements(
    dialect: str, names: tuple[str, ...]
) -> tuple[sa.Executable, sa.Executable]:
    """Return the statements that write the columns *names*, and the revisions."""
    kept = scheduled_actions.c
    columns = {name: kept[name].type for name in ("uid", *names)}
    columns["undecided_from"] = kept.next_due_at.type
    given = json_rows(dialect, columns, "given")
    update = (
        sa.update(scheduled_actions)
        .where(kept.uid == given.c.uid)
        .values(revision=kept.revision + 1, **{name: given.c[name] for name in names})
    )
    return update, _insert_revisions(given.c.undecided_from, kept.uid == given.c.uid)


def _insert_revisions(
    undecided_from: sa.ColumnElement[Any], where: sa.ColumnElement[bool]
) -> sa.Insert:
    """Record actions as they are now; their revision numbers must be new."""
    kept = scheduled_actions.c
    return sa.insert(scheduled_action_revisions).from_select(
        [*_SAME, "recorded_at", "change", "undecided_from", "changed_by", "note"],
        sa.select(
            *(kept[name] for name in _SAME),
            kept.updated_at,
            sa.bindparam("change", type_=sa.Text),
            sa.cast(undecided_from, UtcDateTime),
            sa.bindparam("by", type_=sa.Text),
            sa.bindparam("note", type_=sa.Text),
        ).where(where),
    )


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
