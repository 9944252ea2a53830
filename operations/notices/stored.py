"""
Unreported failures, and the causes that last, in the database.

Only the leader reads and writes them, under its fence.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import Identifier, UtcDateTime, json_rows, make_rows_json
from models.database.tables import (
    LIVE,
    LIVE_OR_CLAIMED,
    OPEN_NOTICES,
    TROUBLED,
    notices,
    operations,
)
from models.operation_state import (
    FINAL_STATES,
    TROUBLED_STATES,
    OperationState,
    Trigger,
)
from operations.notices.grouping import (
    FIRST_PAUSE,
    FORGET_AFTER,
    Notice,
    NoticeKind,
    Open,
    Unreported,
    make_trouble,
)
from operations.operation_filter import find_uncertain

#: An operation that finished so long before the last look may have been committed after
#: it.
OVERLAP = timedelta(minutes=10)

#: Kinds of causes that nobody hears the end of.
ENDLESS = frozenset({NoticeKind.UNCERTAIN, NoticeKind.RESTED})

#: Age up to which uncertain delivery marks are read: their operation may end later.
_MARK_AGE = timedelta(days=1)

#: Characters of an error that are read; only its first line is reported.
_ERROR_READ = 1_000

_OPERATIONS = operations.c

_READ = (
    *(_OPERATIONS.id, _OPERATIONS.app, _OPERATIONS.action_uid),
    *(_OPERATIONS.triggered_by, _OPERATIONS.state, _OPERATIONS.reason),
    sa.func.substr(_OPERATIONS.error, 1, _ERROR_READ).label("error"),
    *(_OPERATIONS.occurrence, _OPERATIONS.finished_at, _OPERATIONS.details),
)


def fetch_unreported(
    connection: sa.Connection,
    *,
    since: datetime,
    apps: Collection[str] | None,
    limit: int,
) -> list[Unreported]:
    """
    Return unreported operations that failed, were missed, or left mails uncertain.

    Args:
        connection: In the transaction that records the notices.
        since: Instant of the last look, aware UTC; a little before it counts, too.
        apps: Uids of small apps. None: all.
        limit: How many failed or missed operations at most, the oldest first, and as
            many with uncertain mails. Rows that somebody else is writing now are left
            for the next look.
    """
    bounds: list[sa.ColumnElement[bool]] = [
        operations.c.finished_at > since - OVERLAP,
        operations.c.trigger != Trigger.NOTICE,
        # An operation that was reported, retried, and failed again is news.
        sa.or_(
            operations.c.noticed_at.is_(None),
            operations.c.noticed_at < operations.c.finished_at,
        ),
    ]
    if apps is not None:
        bounds.append(operations.c.app.in_(apps))

    def fetch(query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        oldest = query.where(*bounds).order_by(_OPERATIONS.finished_at, _OPERATIONS.id)
        # A bulk retry locks rows in another order: wait for nobody.
        free = oldest.limit(limit).with_for_update(skip_locked=True, of=operations)
        return connection.execute(free).all()

    return [
        *(make_trouble(row, KINDS[row.state]) for row in fetch(_FAILED)),
        *(
            make_trouble(row, NoticeKind.UNCERTAIN, mails=row.mails)
            for row in fetch(_select_uncertain(since))
        ),
    ]


_FAILED = sa.select(*_READ).where(TROUBLED.of())


def _select_uncertain(since: datetime) -> sa.Select[Any]:
    """Select operations with uncertain mails that neither failed nor were missed."""
    few = find_uncertain(since - _MARK_AGE)
    marks = (
        sa.select(few.c.operation_id, sa.func.count().label("mails"))
        .group_by(few.c.operation_id)
        .subquery()
    )
    done = sorted(FINAL_STATES - TROUBLED_STATES)
    return (
        sa.select(*_READ, marks.c.mails)
        .join_from(marks, operations, operations.c.id == marks.c.operation_id)
        .where(operations.c.state.in_(done))
    )


#: The kind of notice for each state of a troubled operation.
KINDS = {
    OperationState.FAILED.value: NoticeKind.FAILED,
    OperationState.MISSED.value: NoticeKind.MISSED,
}


def mark_noticed(connection: sa.Connection, troubles: Sequence[Unreported]) -> None:
    """Store that the end of these operations has been reported."""
    columns: dict[str, sa.types.TypeEngine[Any]] = {"id": Identifier, "at": UtcDateTime}
    told = json_rows(connection.dialect.name, columns, "told")
    rows = [{"id": each.operation_id, "at": each.at} for each in troubles]
    connection.execute(
        sa.update(operations)
        .where(operations.c.id == told.c.id)
        .values(noticed_at=told.c.at),
        {"told": make_rows_json(rows)},
    )


def fetch_open(connection: sa.Connection) -> Open:
    """Return the causes that last."""
    columns = [notices.c[each.name] for each in fields(Notice)]
    rows = connection.execute(sa.select(*columns).where(OPEN_NOTICES.of("notices")))
    found: Open = {}
    for row in rows.mappings():
        kind = NoticeKind(row["kind"])
        notice = Notice(**{**row, "kind": kind})
        found[notice.scope, kind, notice.cause_key] = notice
    return found


def store_notice(connection: sa.Connection, notice: Notice) -> None:
    """Write *notice* as it is now; a cause that is open twice is refused."""
    values = asdict(notice)
    connection.execute(
        insert(notices)
        .values(**values)
        .on_conflict_do_update(index_elements=["id"], set_=values)
    )


def close_notice(connection: sa.Connection, notice: Notice, *, now: datetime) -> None:
    """Store that the cause is over."""
    connection.execute(
        sa.update(notices).where(notices.c.id == notice.id).values(closed_at=now)
    )


def forget_old_notices(connection: sa.Connection, *, now: datetime) -> None:
    """Remove causes without a failure in a long time."""
    connection.execute(sa.delete(notices).where(notices.c.last_at < now - FORGET_AFTER))


def is_stale(notice: Notice, *, now: datetime) -> bool:
    """Return whether to close a reported cause that no success of its own ends."""
    return (
        notice.kind in ENDLESS
        and not notice.untold
        and notice.told_at is not None
        and now - notice.told_at >= FIRST_PAUSE
    )


def has_late(connection: sa.Connection, notice: Notice) -> bool:
    """Tell whether a run of the actions of *notice* is late and has not ended."""
    late = sa.select(operations.c.id).where(
        LIVE_OR_CLAIMED.of(),  # as the index says
        LIVE.of(),
        operations.c.action_uid.in_(sorted(notice.actions)),
        operations.c.late.is_not(None),
    )
    return connection.execute(late.limit(1)).first() is not None


@cache
def _succeeded_statement(dialect: str) -> sa.Select[Any]:
    columns: dict[str, sa.types.TypeEngine[Any]] = {
        "uid": sa.Text(),
        "occurrence": UtcDateTime,
        "last_at": UtcDateTime,
    }
    asked = json_rows(dialect, columns, "asked")
    later = sa.exists().where(
        operations.c.action_uid == asked.c.uid,
        # The one that failed last, if it was tried again, or one after it.
        operations.c.occurrence >= asked.c.occurrence,
        operations.c.state == OperationState.SUCCEEDED,
        operations.c.finished_at > asked.c.last_at,
    )
    return sa.select(asked.c.uid).where(later)


def find_succeeded(connection: sa.Connection, notice: Notice) -> set[str]:
    """Return the actions of *notice* that have succeeded since their last failure."""
    asked: Sequence[dict[str, object]] = [
        {
            "uid": uid,
            "occurrence": datetime.fromisoformat(action["occurrence"]),
            "last_at": datetime.fromisoformat(action["last_at"]),
        }
        for uid, action in notice.actions.items()
    ]
    found = connection.execute(
        _succeeded_statement(connection.dialect.name), {"asked": make_rows_json(asked)}
    )
    return set(found.scalars())
