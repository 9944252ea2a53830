"""
Read operations back, for people and programs.

Lists are read in parts, the latest operation first. An index serves each part: what no
index knows, such as a word in an error, is looked for among a bounded number of
operations, and the part ends there. So a part may have few entries, or none, and still
say where the list goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.lists import belongs_to
from models.database.tables import (
    LIVE,
    PENDING,
    RECORDED_APART,
    TROUBLED,
    UNSUCCESSFUL,
    operation_steps,
    operations,
    scheduled_actions,
)
from models.errors import NotFoundError
from models.operation_state import (
    LIVE_STATES,
    TROUBLED_STATES,
    UNSUCCESSFUL_STATES,
    OperationState,
)
from models.paging import Page, Part, Position
from operations.operation_filter import (
    UNCERTAIN_IDS,
    Columns,
    Conditions,
    OperationFilter,
    find_place,
    match,
    match_period,
    read_id,
    read_period,
)
from operations.running.pace import seconds_taken

_run = operations.c

#: Operations that are not final, of one action and user, of which a preview tells.
_MOST_LIVE = 10


@dataclass(frozen=True, slots=True)
class Bounds:
    """
    How many operations one question may look at: what follows takes some 20 ms.

    Those of one small app lie far apart in the table, so that each costs more.

    Args:
        looked_at: For one part of a list, where no index knows which of them match.
        looked_at_of_app: The same in a list of one small app.
        sorted_at_once: If no more operations than this have a property that an index
            knows, all of them are read and sorted.
    """

    looked_at: int = 5_000
    looked_at_of_app: int = 2_000
    sorted_at_once: int = 3_000

    def for_list(self, app: str | None) -> int:
        """Return how many a list of *app* may look at for one part."""
        return self.looked_at if app is None else self.looked_at_of_app


BOUNDS = Bounds()

#: For somebody who waits until all that was asked for has been found.
PATIENT = Bounds(looked_at=100_000, looked_at_of_app=100_000, sorted_at_once=20_000)

#: Rows that are fetched at once.
_AT_ONCE = 5_000


def fetch_operation(
    connection: sa.Connection, operation_id: UUID, *, app: str | None = None
) -> sa.Row[Any] | None:
    """
    Return an operation, the ``action_name`` that its action has now, and ``taken_s``.

    Args:
        app: Uid of the small app that it must belong to. None: any.

    Returns:
        None if there is no such operation.
    """
    return connection.execute(
        sa.select(operations, *_add(operations.c)).where(
            _run.id == operation_id, *belongs_to(app)
        )
    ).one_or_none()


def require_operation(
    connection: sa.Connection, operation_id: UUID, *, app: str | None
) -> sa.Row[Any]:
    """
    Return an operation, as ``fetch_operation`` does.

    Raises:
        NotFoundError: There is no such operation, or it belongs to another small app.
    """
    row = fetch_operation(connection, operation_id, app=app)
    if row is None:
        raise make_unknown(operation_id)
    return row


def make_unknown(operation_id: UUID) -> NotFoundError:
    """Return the error that there is no operation *operation_id*."""
    return NotFoundError(f"there is no operation {operation_id}")


def fetch_operations(
    connection: sa.Connection,
    wanted: OperationFilter,
    page: Page | None = None,
    *,
    bounds: Bounds = BOUNDS,
) -> Part[sa.Row[Any]]:
    """
    Return a part of the operations that match, the latest recorded first.

    Args:
        page: Its position is (recorded_at, occurrence, id): what was recorded at one
            instant is in the order of its occurrences.
        bounds: How much to look at.

    Returns:
        Rows as of ``fetch_operation``. There may be fewer than *page* allows, even
        none, although more follow: see the module.
    """
    page = page or Page()
    place = find_place(wanted, page)
    asked = match(_run, wanted)
    if not asked:
        # One more says that others follow.
        first = walk_latest(wanted, place, page.limit + 1).subquery("first")
        rows = _read(connection, sa.select(first), page.limit)
        return _make_part(rows, page.limit, None)
    base = find_few(connection, wanted, bounds)
    if base:
        place += [*base, *asked, match_period(wanted.since, wanted.until)]
        found = sa.select(operations).where(*place).cte("found")
        # Without this, PostgreSQL may go through all operations in the order of the
        # list, in the hope to meet some that match.
        found = found.prefix_with("MATERIALIZED")
        rows = _read(connection, sa.select(found), page.limit)
        return _make_part(rows, page.limit, None)
    if wanted.cause or (wanted.states and wanted.states <= UNSUCCESSFUL_STATES):
        # Then the others are not even looked at.
        place.append(UNSUCCESSFUL.of())
    most = bounds.for_list(wanted.app)
    looked_at = walk_latest(wanted, place, most).subquery("looked_at")
    matching = sa.select(looked_at).where(*match(looked_at.c, wanted))
    rows = _read(connection, matching, page.limit)
    end = None
    if len(rows) <= page.limit:
        end = _find_end(connection, walk_latest(wanted, place, most, _KEY), most)
    return _make_part(rows, page.limit, end)


#: The columns by which lists are in order.
_KEY = _run.recorded_at, _run.occurrence, _run.id


def walk_latest(
    wanted: OperationFilter,
    place: Conditions,
    most: int,
    columns: Sequence[sa.ColumnElement[Any]] = tuple(operations.c),
) -> sa.Select[Any]:
    """
    Return the query of the latest *most* operations of a place, and of a period.

    Args:
        wanted: Of which the period is asked.
        place: As of ``find_place``, perhaps with ``find_few``.
        most: How many.
        columns: Of the query, among them those that lists are in order by.
    """
    query = sa.select(*columns).where(*place)
    due, recorded = read_period(wanted.since, wanted.until)
    if not due:
        return _order(query, operations.c).limit(most)
    is_apart = RECORDED_APART.of()
    at_once = query.where(*due, *recorded, sa.not_(is_apart))
    latest = _order(at_once, operations.c).limit(most)
    # The others are few, unless a long outage or backfill is looked at: then a part
    # costs what was recorded of it, 2 ms a thousand. With a limit, PostgreSQL would go
    # through all operations in the order of the list, in the hope to meet some.
    others = query.where(*due, is_apart)
    both = sa.union_all(sa.select(latest.subquery()), others).subquery()
    return _order(sa.select(both), both.c).limit(most)


def find_few(
    connection: sa.Connection, wanted: OperationFilter, bounds: Bounds
) -> Conditions:
    """Return conditions that an index serves and few operations meet; or none."""
    named = None if wanted.text is None else read_id(wanted.text)
    # Also the uid of an action may look like an id.
    if named is not None and fetch_operation(connection, named, app=wanted.app):
        return [_run.id == named]
    bases: list[Conditions] = []
    if wanted.action_uid is not None:
        bases.append([_run.action_uid == wanted.action_uid])
    if wanted.ids is not None:
        bases.append([_run.id.in_(wanted.ids)])
    if wanted.is_uncertain:
        bases.append([_run.id.in_(UNCERTAIN_IDS)])
    if wanted.is_retrying:
        bases.append([PENDING.of()])
    if wanted.states and wanted.states <= LIVE_STATES:
        bases.append([LIVE.of()])
    if wanted.cause or (wanted.states and wanted.states <= TROUBLED_STATES):
        bases.append([TROUBLED.of()])
    for base in bases:
        few = sa.select(sa.literal(1)).select_from(operations).where(*base)
        most = few.limit(bounds.sorted_at_once + 1).subquery()
        count = sa.select(sa.func.count()).select_from(most)
        if connection.execute(count).scalar_one() <= bounds.sorted_at_once:
            return base
    return []


def _find_end(
    connection: sa.Connection, walked: sa.Select[Any], most: int
) -> Position | None:
    """Return the position of the last of *most* operations; None: there are fewer."""
    found = walked.subquery("walked")
    last = _order(sa.select(found), found.c).limit(1).offset(most - 1)
    row = connection.execute(last).one_or_none()
    return None if row is None else _locate(row)


def _locate(row: sa.Row[Any]) -> Position:
    return row.recorded_at, row.occurrence, row.id


def _order(query: sa.Select[Any], columns: Columns) -> sa.Select[Any]:
    return query.order_by(
        columns.recorded_at.desc(), columns.occurrence.desc(), columns.id.desc()
    )


def _read(
    connection: sa.Connection, query: sa.Select[Any], limit: int
) -> Sequence[sa.Row[Any]]:
    """Return at most one row more than *limit*, which says that more follow."""
    columns: Any = query.selected_columns
    query = query.add_columns(*_add(columns))
    return connection.execute(_order(query, columns).limit(limit + 1)).all()


def _add(columns: Columns) -> Iterator[sa.Label[Any]]:
    # to the few rows that are returned: a join might do it for all
    action = scheduled_actions.c
    name = sa.select(action.name).where(action.uid == columns.action_uid)
    yield name.scalar_subquery().label("action_name")
    yield seconds_taken(columns).label("taken_s")


def _make_part(
    rows: Sequence[sa.Row[Any]], limit: int, end: Position | None
) -> Part[sa.Row[Any]]:
    if len(rows) <= limit:
        return Part(rows, end)
    return Part(rows[:limit], _locate(rows[limit - 1]))


def fetch_latest(
    connection: sa.Connection, wanted: OperationFilter, *, limit: int
) -> list[sa.Row[Any]]:
    """Return the latest operations that match, however many must be looked at."""
    found: list[sa.Row[Any]] = []
    after: Position | None = None
    while len(found) < limit:
        page = Page(min(limit - len(found), _AT_ONCE), after)
        part = fetch_operations(connection, wanted, page, bounds=PATIENT)
        found += part.entries
        after = part.following
        if after is None:
            break
    return found


def fetch_live_ids(
    connection: sa.Connection, action_uid: str, user_id: str | None
) -> tuple[UUID, ...]:
    """Return operations of an action, and user, that are not final; ten at most."""
    kept = operations.c
    query = sa.select(kept.id).where(
        LIVE.of(),
        kept.action_uid == action_uid,
        kept.user_id.is_not_distinct_from(user_id),
    )
    return tuple(connection.execute(query.limit(_MOST_LIVE)).scalars())


def fetch_stuck(
    connection: sa.Connection, *, older_than: timedelta, app: str | None
) -> list[tuple[str, int, datetime]]:
    """Return queue, count and oldest sending of messages unclaimed for *older_than*."""
    rows = connection.execute(
        sa.select(_run.queue, sa.func.count(), sa.func.min(_run.sent_at))
        .where(
            _run.state == OperationState.QUEUED,
            _run.sent_at <= db_now(-older_than),
            *belongs_to(app),
        )
        .group_by(_run.queue)
        .order_by(_run.queue)
    )
    return [(queue, count, oldest) for queue, count, oldest in rows]


def fetch_steps(
    connection: sa.Connection, operation_ids: Collection[UUID]
) -> dict[UUID, list[sa.Row[Any]]]:
    """Return the steps of each operation in their order; none before a claim."""
    found: dict[UUID, list[sa.Row[Any]]] = defaultdict(list)
    query = (
        sa.select(operation_steps)
        .where(operation_steps.c.operation_id.in_(operation_ids))
        .order_by(operation_steps.c.operation_id, operation_steps.c.position)
    )
    for row in connection.execute(query):
        found[row.operation_id].append(row)
    return found


def count_backlog(connection: sa.Connection) -> dict[tuple[str, str], int]:
    """Return how many operations are not final, by (queue, state)."""
    rows = connection.execute(
        sa.select(_run.queue, _run.state, sa.func.count().label("waiting"))
        .where(LIVE.of())
        .group_by(_run.queue, _run.state)
    )
    return {(row.queue, row.state): row.waiting for row in rows}
