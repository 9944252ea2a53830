"""When nobody led: the stretches between one leadership and the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import sqlalchemy as sa

from actions.leader import Holder, Leadership, fetch_holder, fetch_leaderships
from models.database.engine import read_clock
from models.database.tables import TROUBLED, operations
from models.operation_state import OperationState
from operations.fleet.processes import Role, Seen, fetch_processes

#: A standby takes over within the lease, and a tick looks back further: shorter
#: stretches delay nothing.
SHORTEST = timedelta(seconds=60)

#: A new leader decides in its first ticks what was missed.
_FIRST_TICKS = timedelta(minutes=5)

#: The most leaderships that are looked at.
_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Unled:
    """
    A time in which nobody led.

    Args:
        since: The last sign of who led before, or the first occurrence that was missed,
            aware UTC.
        until: When the next one took over, aware UTC. None: nobody has.
    """

    since: datetime
    until: datetime | None


def fetch_unled(connection: sa.Connection, *, since: datetime) -> list[Unled]:
    """
    Return the times in which nobody led, as far as they reach after *since* (aware).

    Who was killed has not said when it ended; then its last sign of life counts, or the
    first occurrence that was missed. Where there is neither, nothing is said.
    """
    led = fetch_leaderships(connection, limit=_LOOKED_AT)
    found = find_unled(
        led,
        fetch_processes(connection),
        fetch_holder(connection),
        now=read_clock(connection),
        missed=_fetch_missed(connection, led, since),
    )
    return [each for each in found if each.until is None or each.until > since]


def _fetch_missed(
    connection: sa.Connection, led: Sequence[Leadership], since: datetime
) -> dict[int, datetime]:
    """Return the first occurrence that each new leader found missed, by its fence."""
    kept = operations.c
    found = {}
    for later, former in pairwise(led):
        if former.released_at is not None or later.acquired_at <= since:
            continue
        first: datetime | None = connection.execute(
            sa.select(sa.func.min(kept.occurrence, type_=kept.occurrence.type)).where(
                TROUBLED.of(),
                kept.state == OperationState.MISSED,
                kept.finished_at >= later.acquired_at,
                kept.finished_at < later.acquired_at + _FIRST_TICKS,
                kept.occurrence >= former.acquired_at,
            )
        ).scalar_one()
        if first is not None:
            found[later.fence] = first
    return found


def find_unled(
    led: Sequence[Leadership],
    seen: Iterable[Seen],
    holder: Holder | None,
    *,
    now: datetime,
    missed: Mapping[int, datetime] | None = None,
) -> list[Unled]:
    """
    Return the stretches in which nobody led, oldest first.

    Args:
        led: Leaderships, the latest first.
        seen: Processes, alive or not.
        holder: Who has the lease, or let it run out. None: it was released.
        now: Aware UTC.
        missed: The first occurrence (aware UTC) that a leader found missed, by fence.
    """
    schedulers = [each for each in seen if each.process.role is Role.SCHEDULER]
    found = []
    for later, former in pairwise(led):
        end = _find_end(former, schedulers) or (missed or {}).get(later.fence)
        if end is not None and later.acquired_at - end >= SHORTEST:
            found.append(Unled(end, later.acquired_at))
    found.reverse()
    if holder is None or holder.is_stale:
        last = holder.heartbeat_at if holder else led[0].released_at if led else None
        if last is not None and now - last >= SHORTEST:
            found.append(Unled(last, None))
    return found


def _find_end(former: Leadership, schedulers: Iterable[Seen]) -> datetime | None:
    """Return when a leadership ended, or gave its last sign."""
    if former.released_at is not None:
        return former.released_at
    signs = [
        each.heartbeat_at
        for each in schedulers
        if each.process.hostname == former.hostname
        and each.process.pid == former.pid
        and each.started_at - SHORTEST <= former.acquired_at <= each.heartbeat_at
    ]
    return max(signs, default=None)
