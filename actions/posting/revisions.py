"""
Every change of a scheduled action is a new revision, and every revision is kept.

A decision about an older revision writes nothing; an operation runs the revision that
it was recorded with; ``why`` and ``audit`` read what was in effect at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from models.database.engine import UtcDateTime, json_rows, make_rows_json, read_clock
from models.database.tables import scheduled_action_revisions, scheduled_actions
from models.errors import NotFoundError
from models.revision import Change

#: The author of changes that the scheduler makes by itself.
SCHEDULER = "scheduler"


def lock_action(connection: sa.Connection, uid: str) -> sa.Row[Any]:
    """
    Return the row of an action, locked against changes until the commit.

    Raises:
        NotFoundError: If there is no such action, or it is deleted.
    """
    row = connection.execute(
        sa.select(scheduled_actions)
        .where(scheduled_actions.c.uid == uid, scheduled_actions.c.deleted_at.is_(None))
        .with_for_update()
    ).one_or_none()
    if row is None:
        msg = f"there is no scheduled action {uid!r}"
        raise NotFoundError(msg)
    return row


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
    connection.execute(
        sa.update(scheduled_actions)
        .where(scheduled_actions.c.uid == uid)
        .values(
            revision=scheduled_actions.c.revision + 1,
            updated_at=read_clock(connection),
            **values,
        )
    )
    _log(connection, [uid], change, sa.literal(undecided_from, UtcDateTime), by, note)


def log_posted(
    connection: sa.Connection, uids: Sequence[str], *, by: str | None = None
) -> None:
    """
    Record new actions as their first revisions.

    Args:
        connection: In the transaction that made them.

        uids: Uids of the actions; at most a thousand.

        by: Who posted them.
    """
    _log(connection, uids, Change.POSTED, sa.null(), by, None)


def _log(
    connection: sa.Connection,
    uids: Sequence[str],
    change: Change,
    undecided_from: sa.ColumnElement[Any],
    by: str | None,
    note: str | None,
) -> None:
    """Record actions as they are now; their revision numbers must be new."""
    kept = scheduled_actions.c
    connection.execute(
        sa.insert(scheduled_action_revisions).from_select(
            _NAMES,
            sa.select(
                *(kept[name] for name in _SAME),
                kept.updated_at,
                sa.literal(change),
                sa.cast(undecided_from, UtcDateTime),
                sa.literal(by, sa.Text),
                sa.literal(note, sa.Text),
            ).where(kept.uid.in_(uids)),
        )
    )


#: Columns that a revision copies from its action, and all of its columns.
_SAME = ("uid", "revision", "document", "timing", "active", "effective_from")
_NAMES = [*_SAME, "recorded_at", "change", "undecided_from", "changed_by", "note"]

#: Columns that may be written into many actions at once.
_CHANGED: dict[str, sa.types.TypeEngine[Any]] = {
    "paused_at": UtcDateTime,
    "paused_until": UtcDateTime,
    "paused_by": sa.Text(),
    "pause_note": sa.Text(),
    "pause_scope": sa.Text(),
    "quarantined_at": UtcDateTime,
    "quarantine_reason": sa.Text(),
    "effective_from": UtcDateTime,
    "next_due_at": UtcDateTime,
    "updated_at": UtcDateTime,
    "deleted_at": UtcDateTime,
}

#: Actions in one statement.
_AT_ONCE = 1000


def change_actions(
    connection: sa.Connection,
    changes: Sequence[tuple[sa.Row[Any], Mapping[str, object]]],
    change: Change,
    *,
    by: str | None = None,
    note: str | None = None,
) -> None:
    """
    Write a new revision of each of many actions, in few statements.

    Args:
        connection: In a transaction that has locked the actions.

        changes: For each action, its row as it was, and the new values of columns, of
            those in _CHANGED.

        change: What made the new revisions, such as "paused".

        by: Who made them.

        note: Why, in their words.
    """
    update, insert = _many_statements(connection.dialect.name)
    for start in range(0, len(changes), _AT_ONCE):
        rows = make_rows_json(
            [
                {
                    "uid": row.uid,
                    "undecided_from": row.next_due_at,
                    **{name: getattr(row, name) for name in _CHANGED},
                    **values,
                }
                for row, values in changes[start : start + _AT_ONCE]
            ]
        )
        connection.execute(update, {"given": rows})
        connection.execute(
            insert, {"given": rows, "change": change, "by": by, "note": note}
        )


@cache
def _many_statements(dialect: str) -> tuple[sa.Executable, sa.Executable]:
    kept = scheduled_actions.c
    given = json_rows(
        dialect,
        {"uid": sa.Text(), "undecided_from": UtcDateTime, **_CHANGED},
        "given",
    )
    update = (
        sa.update(scheduled_actions)
        .where(kept.uid == given.c.uid)
        .values(
            revision=kept.revision + 1, **{name: given.c[name] for name in _CHANGED}
        )
    )
    insert = sa.insert(scheduled_action_revisions).from_select(
        _NAMES,
        sa.select(
            *(kept[name] for name in _SAME),
            kept.updated_at,
            sa.bindparam("change", type_=sa.Text),
            given.c.undecided_from,
            sa.bindparam("by", type_=sa.Text),
            sa.bindparam("note", type_=sa.Text),
        ).where(kept.uid == given.c.uid),
    )
    return update, insert
