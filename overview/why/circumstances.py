"""
What rows of operations alone do not tell of why they wait or did not run.

Everything is read for all rows of a list together, each kind with one query, and only
if a row needs it; each query is bounded, whatever the backlog and the history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.lease import fetch_leader, get_send_failure
from models.database.tables import UNCERTAIN, UNDER_WAY_HEAVY, deliveries, operations
from models.operation_state import OperationState, Overlap, Queue, Reason, is_awaiting
from operations.fleet.processes import fetch_processes
from operations.turns import IS_AHEAD, OTHER, Rest, fetch_resting, find_queued
from overview.installation.figures import find_takers
from overview.installation.leaders import fetch_unled, find_first_missed
from overview.why.sentences import ALONE, Circumstances, OperationRow, Parts, Place

#: A leader sends every second; an operation that waits longer meets some trouble.
PATIENCE = timedelta(seconds=10)

#: Queued operations of which the places are counted, the first to be taken.
_QUEUED_COUNTED = 2_000

#: Runs before an occurrence among which the one is looked for that it overlapped.
_OVERLAPPED_AMONG = 100

_run = operations.c


def fetch_circumstances(
    connection: sa.Connection, rows: Sequence[OperationRow], *, now: datetime
) -> dict[UUID, Circumstances]:
    """
    Return what is known about operations beside their rows.

    Args:
        rows: A page of them, some hundreds at most.
        now: Aware UTC, the database's clock.

    Returns:
        By id, without those of which nothing more is known.
    """
    found: defaultdict[UUID, Circumstances] = defaultdict(lambda: ALONE)
    by_state: defaultdict[str, list[OperationRow]] = defaultdict(list)
    for row in rows:
        by_state[row.state].append(row)
    due = [
        r
        for r in by_state[OperationState.PENDING]
        if r.send_at <= now and not is_awaiting(r.reason)
    ]
    if due:
        _add_hindrances(connection, due, found, now)
    if queued := by_state[OperationState.QUEUED]:
        _add_places(connection, queued, found)
    skipped, missed = by_state[OperationState.SKIPPED], by_state[OperationState.MISSED]
    if overlapped := [row.id for row in skipped if row.reason == Reason.OVERLAP]:
        for id_, blocker, at in _fetch_overlapped(connection, overlapped):
            found[id_] = Circumstances(blocker=blocker, blocker_at=at)
    if missed := [row for row in missed if row.reason == Reason.OUTAGE]:
        _add_outages(connection, missed, found)
    for id_, count in count_uncertain_mails(connection, [r.id for r in rows]).items():
        found[id_] = replace(found[id_], uncertain=count)
    return dict(found)


def count_uncertain_mails(
    connection: sa.Connection, ids: Collection[UUID]
) -> dict[UUID, int]:
    """Return how many mails of each of these operations are uncertain, if any are."""
    marks = deliveries.c
    rows = connection.execute(
        sa.select(marks.operation_id, sa.func.count())
        .where(UNCERTAIN.of("deliveries"), marks.operation_id.in_(ids))
        .group_by(marks.operation_id)
    )
    return dict(rows.all())


def _add_hindrances(
    connection: sa.Connection,
    due: Sequence[OperationRow],
    found: defaultdict[UUID, Circumstances],
    now: datetime,
) -> None:
    """Say what keeps pending operations from being sent, by the rules of order.py."""
    waiting = connection.execute(
        sa.select(
            _run.id, _run.app, _run.queue, _run.overlap, _run.claim_token, _run.send_at
        ).where(_run.id.in_([row.id for row in due]))
    ).all()
    heavy = {row.app for row in waiting if row.queue == Queue.HEAVY}
    in_line = [row.id for row in waiting if row.overlap == Overlap.QUEUE]
    resting = fetch_resting(connection)
    of_app: dict[str, Any] = {}
    if heavy:
        of_heavy = UNDER_WAY_HEAVY.of(), _run.app.in_(heavy)
        working = sa.select(_run.app, _run.id, _run.occurrence).where(*of_heavy)
        of_app = {row.app: row for row in connection.execute(working)}
    ahead = {row.behind: row for row in _fetch_ahead(connection, in_line)}
    program: Parts = ()
    for row in waiting:
        if rest := resting.get(Queue(row.queue)):
            found[row.id] = Circumstances(describe_rest(Queue(row.queue), rest))
            continue
        if row.claim_token is not None:
            words = "it was canceled and retried, and its former worker still runs"
            found[row.id] = Circumstances((words,))
            continue
        other = of_app.get(row.app) if row.queue == Queue.HEAVY else None
        words = f"another heavy run of {row.app} has not ended"
        if other is None and row.id in ahead:
            other = ahead[row.id]
            words = "another run of the action has not ended"
        if other is not None:
            found[row.id] = Circumstances((words,), other.id, other.occurrence)
        elif now - row.send_at > PATIENCE:
            program = program or _describe_program(connection)
            found[row.id] = Circumstances(program=program)


def describe_rest(queue: Queue, rest: Rest) -> Parts:
    """
    Say until when *queue* is paused, and why; for tenants too, so not by whom.

    >>> describe_rest(Queue.QUICK, Rest(datetime(2026, 1, 5), None, "it moves"))[2]
    ': it moves'
    """
    until = () if rest.until is None else (" until ", rest.until)
    note = () if rest.note is None else (f": {rest.note}",)
    begin = f"queue {queue.value} has been paused since "
    return (begin, rest.since, *until, *note)


def _fetch_ahead(
    connection: sa.Connection, ids: Collection[UUID]
) -> Sequence[sa.Row[Any]]:
    """Return what is ahead of each of *ids* in its line, what runs or is next last."""
    if not ids:
        return ()
    rows: Sequence[Any] = connection.execute(
        sa.select(_run.id.label("behind"), OTHER.c.id, OTHER.c.occurrence)
        .where(_run.id.in_(ids), IS_AHEAD)
        .order_by(OTHER.c.claim_token.is_not(None), OTHER.c.recorded_at.desc())
    ).all()
    return rows


def _describe_program(connection: sa.Connection) -> Parts:
    """Say why an operation that may be sent is not: no leader, or no broker."""
    if fetch_leader(connection) is None:
        how = "minutehand scheduler starts one, and so does minutehand up"
        return (f"no scheduler leads; {how}",)
    failure = get_send_failure(connection)
    if failure is not None:
        error = failure.error.removesuffix(".")
        return "the scheduler has failed to send since ", failure.since, f": {error}"
    return ("a scheduler leads, but has not sent it; ask doctor (minutehand doctor)",)


def _add_places(
    connection: sa.Connection,
    queued: Sequence[OperationRow],
    found: defaultdict[UUID, Circumstances],
) -> None:
    """Say where queued operations stand, and whether somebody takes from there."""
    columns = _run.id, _run.queue, _run.app, _run.lane, _run.sent_at, _run.send_at
    with_broker = find_queued(_QUEUED_COUNTED + 1, *columns)
    first = connection.execute(
        sa.select(with_broker)
        .order_by(with_broker.c.sent_at, with_broker.c.send_at)
        .limit(_QUEUED_COUNTED + 1)
    ).all()
    places: dict[UUID, int] = {}
    behind: dict[UUID, int] = {}
    counts: Counter[object] = Counter()
    for each in first[:_QUEUED_COUNTED]:
        counts[each.queue] += 1
        places[each.id] = counts[each.queue]
        if each.lane:
            lane = each.app, each.lane
            behind[each.id] = counts[lane]
            counts[lane] += 1
    seen = fetch_processes(connection)
    resting = fetch_resting(connection)
    for row in queued:
        hindrance: Parts = ()
        if rest := resting.get(Queue(row.queue)):
            hindrance = describe_rest(Queue(row.queue), rest)
        elif row.id in behind:
            share = (
                f"it waits behind {behind[row.id]} of its own app, which has more under"
                " way than its share of the slots (MINUTEHAND_APP_SHARE)"
            )
            hindrance = (share,)
        place = None
        if row.id in places:
            place = Place(
                position=places[row.id],
                waiting=counts[row.queue],
                is_whole=len(first) <= _QUEUED_COUNTED,
                is_served=bool(find_takers(seen, Queue(row.queue))),
            )
        found[row.id] = Circumstances(hindrance, place=place)


def _fetch_overlapped(
    connection: sa.Connection, ids: Collection[UUID]
) -> Sequence[tuple[UUID, UUID, datetime]]:
    """Return the runs that were under way when these occurrences were skipped."""
    skipped, former = operations.alias("skipped"), operations.alias("former")
    before = (
        sa.select(former)
        .where(
            former.c.action_uid == skipped.c.action_uid,
            former.c.occurrence < skipped.c.occurrence,
        )
        .order_by(former.c.occurrence.desc())
        .limit(_OVERLAPPED_AMONG)
        .correlate(skipped)
        .subquery("before")
    )
    ran = (
        before.c.user_id.is_not_distinct_from(skipped.c.user_id),
        before.c.state.not_in([OperationState.SKIPPED, OperationState.MISSED]),
        before.c.recorded_at <= skipped.c.recorded_at,
        sa.or_(
            before.c.finished_at.is_(None),
            before.c.finished_at >= skipped.c.recorded_at,
        ),
    )
    blocker = (
        sa.select(before.c.id)
        .where(*ran)
        .order_by(before.c.occurrence.desc())
        .limit(1)
        .correlate(skipped)
        .scalar_subquery()
    )
    pairs = (
        sa.select(skipped.c.id, blocker.label("blocker"))
        .where(skipped.c.id.in_(ids))
        .subquery("pairs")
    )
    found = sa.select(pairs.c.id, _run.id, _run.occurrence)
    blocked = found.join_from(pairs, operations, _run.id == pairs.c.blocker)
    rows: Sequence[Any] = connection.execute(blocked).all()
    return rows


def _add_outages(
    connection: sa.Connection,
    missed: Sequence[OperationRow],
    found: defaultdict[UUID, Circumstances],
) -> None:
    """Say from when to when nobody led, as far as that is recorded."""
    begun = {row.id: find_first_missed(row) for row in missed}
    unled = fetch_unled(connection, since=min(begun.values()))
    for row in missed:
        for each in unled:
            if each.until is not None and each.covers(begun[row.id]):
                found[row.id] = Circumstances(outage=(each.since, each.until))
