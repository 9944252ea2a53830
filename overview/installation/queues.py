"""
The queues: what waits in each, how fast it is taken, and whether it is paused.

How fast is counted from the operations recorded lately, by the index over that: those
that workers began within the last hour, however long they had waited, up to half a day.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.pausing.pause_state import Pause
from actions.pausing.queues import fetch_queue_pauses
from models.database.engine import read_clock
from models.database.sql_time import minutes_ago
from models.database.tables import PENDING, STANDS_IN_LINE, operations
from models.operation_state import OperationState, Queue
from operations.fleet.processes import fetch_processes, find_node
from operations.turns import find_queued
from overview.installation.figures import (
    LIVE_IN_ORDER,
    QueueNow,
    fetch_backlog,
    find_queues,
)

#: How far the history of a queue goes back, in minutes.
HISTORY = 60

#: What "lately" is for the time until a queue is empty, in minutes.
LATELY = 15

#: Operations that waited for longer before they began count only while others wait as
#: long: nobody would look through all that was ever recorded.
_LEAST_BACK, _MOST_BACK = timedelta(hours=2), timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class ShownQueue(QueueNow):
    """
    A queue, and how it gets on.

    Args:
        pause: None: it is not paused.
        waiting: Operations that no worker has taken yet: those that are *pending*, and
            those that were sent, *queued*.
        later: So many of them are to be sent later, such as between two attempts.
        taken_15_min: Begun by workers within that time.
        taken_1_h: The same.
        empty_in_s: How long what waits would take at the pace of the last 15 minutes if
            nothing came in. None: nothing was taken, nobody takes from it, or it is
            paused.
        history: How many waited at each full minute before, the latest last.
    """

    queue: Queue
    pause: Pause | None
    waiting: int
    pending: int
    queued: int
    later: int
    running: int
    taken_15_min: int
    taken_1_h: int
    empty_in_s: float | None
    history: Sequence[int]


@dataclass(frozen=True, slots=True)
class QueuePace:
    """
    What happened in a queue within the last HISTORY minutes.

    Args:
        taken: How many operations were begun, by how many minutes ago.
        waited: How many waited, by how many minutes ago.
    """

    taken: Mapping[int, int] = field(default_factory=dict)
    waited: Mapping[int, int] = field(default_factory=dict)

    def count_taken(self, minutes: int) -> int:
        """Return how many were begun within the last *minutes*."""
        return sum(count for ago, count in self.taken.items() if ago < minutes)


def fetch_queues(connection: sa.Connection) -> list[ShownQueue]:
    """Return every queue."""
    now = read_clock(connection)
    backlog = fetch_backlog(connection, now=now)
    queues = find_queues(backlog, fetch_processes(connection), now)
    pauses = fetch_queue_pauses(connection)
    paces = fetch_paces(connection, now=now)
    found = []
    for queue, is_now in queues.items():
        pending, queued, running = (is_now.counts[state] for state in LIVE_IN_ORDER)
        pace = paces.get(queue, QueuePace())
        pause = pauses.get(queue)
        waiting = pending + queued
        served = pause is None and (is_now.workers > 0 or queue is Queue.TASKS)
        history = [pace.waited.get(ago, 0) for ago in range(HISTORY, 0, -1)]
        shown = ShownQueue(
            queue=queue,
            pause=pause,
            waiting=waiting,
            pending=pending,
            queued=queued,
            later=waiting - is_now.due,
            running=running,
            **asdict(is_now),
            taken_15_min=pace.count_taken(LATELY),
            taken_1_h=pace.count_taken(HISTORY),
            empty_in_s=_find_end_s(waiting, pace, served=served),
            history=[*history, waiting],
        )
        found.append(shown)
    return found


def _find_end_s(waiting: int, pace: QueuePace, *, served: bool) -> float | None:
    """Return how long what waits would take at the pace of late; None: no end."""
    if not waiting:
        return 0.0
    taken = pace.count_taken(LATELY)
    return round(60 * LATELY * waiting / taken, 3) if taken and served else None


def fetch_paces(connection: sa.Connection, *, now: datetime) -> dict[Queue, QueuePace]:
    """Return what happened in each queue within the last hour; *now* is aware UTC."""
    kept = operations.c
    left_at = sa.func.coalesce(
        kept.started_at, kept.finished_at, type_=kept.started_at.type
    )
    instant = sa.literal(now, kept.recorded_at.type)  # a call for each row costs more
    rows = connection.execute(
        sa.select(
            *(kept.queue, minutes_ago(kept.recorded_at, instant)),
            *(minutes_ago(left_at, instant), kept.started_at.is_not(None)),
            sa.func.count(),
        )
        .where(
            kept.recorded_at >= _find_start(connection, now),
            kept.state.not_in([OperationState.SKIPPED, OperationState.MISSED]),
        )
        .group_by(sa.text("1, 2, 3, 4"))
    )
    return _count_paces(rows.all())


def _find_start(connection: sa.Connection, now: datetime) -> datetime:
    """Return since when to look, so that what began lately is found."""
    kept = operations.c
    pending = (
        sa.select(kept.send_at)
        .where(
            PENDING.of(), sa.text(f"{STANDS_IN_LINE.format('operations.')} = {each}")
        )
        .order_by(kept.send_at)
        .limit(1)
        .subquery()
        for each in (0, 1)
    )
    queued = sa.select(find_queued(1, kept.sent_at))
    oldest = connection.execute(
        sa.union_all(*(sa.select(each) for each in pending), queued)
    ).scalars()
    since = min((each for each in oldest if each is not None), default=now)
    wanted = min(now - _LEAST_BACK, since - timedelta(minutes=HISTORY))
    return max(wanted, now - _MOST_BACK)


def _count_paces(rows: Sequence[Any]) -> dict[Queue, QueuePace]:
    taken: defaultdict[Queue, Counter[int]] = defaultdict(Counter)
    waited: defaultdict[Queue, Counter[int]] = defaultdict(Counter)
    for name, came, left, began, count in rows:
        queue = Queue(name)
        if began and left is not None and left < HISTORY:
            taken[queue][left] += count
        # It waited at each full minute after it came and before it left.
        last = 0 if left is None else left
        for ago in range(last + 1, min(came, HISTORY) + 1):
            waited[queue][ago] += count
    return {
        queue: QueuePace(dict(taken[queue]), dict(waited[queue]))
        for queue in {*taken, *waited}
    }


def count_taken(connection: sa.Connection) -> dict[str, int]:
    """Return how many operations each worker began within the last hour, by name."""
    kept = operations.c
    now = read_clock(connection)
    rows = connection.execute(
        sa.select(kept.worker, sa.func.count())
        .where(
            kept.recorded_at >= _find_start(connection, now),
            kept.started_at >= now - timedelta(minutes=HISTORY),
        )
        .group_by(kept.worker)
    )
    taken: Counter[str] = Counter()
    for worker, count in rows:
        if worker is not None:
            taken[find_node(worker)] += count
    return taken
