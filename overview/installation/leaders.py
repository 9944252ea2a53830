"""Who leads, who led before and why that ended, when nobody did, and who stands by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Protocol

import sqlalchemy as sa

from actions.lease import Holder, Leadership, fetch_holder, fetch_leaderships
from models.database.engine import read_clock
from models.database.tables import TROUBLED, operations
from models.decision import read_missed
from models.operation_state import OperationState
from operations.fleet.processes import ProcessRole, Seen, fetch_processes
from overview.doctor.thresholds import BEGAN_LATE_AFTER

#: The most leaderships that are told.
_MOST = 10

#: A standby takes over within the lease, and a tick looks back further: shorter
#: stretches delay nothing.
SHORTEST = timedelta(seconds=60)

#: A new leader decides in its first ticks what was missed.
_FIRST_TICKS = timedelta(minutes=5)

#: The most leaderships that are looked at.
_LOOKED_AT = 100

#: A standby takes a released lease within a second or two; longer is a gap.
_AT_ONCE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Reign:
    """
    Somebody led for a while, or nobody did.

    Args:
        who: The host. None: nobody led.
        since: Aware UTC.
        until: Aware UTC. None: it lasts.
        fence: None: nobody led.
        ended: Why it ended, or why nobody led, in a few words. Empty: it lasts.
        is_until_exact: Whether *until* is known; else it is when the next one began.
    """

    who: str | None
    since: datetime
    until: datetime | None
    fence: int | None
    ended: str
    is_until_exact: bool = True


@dataclass(frozen=True, slots=True)
class Leaders:
    """
    Who leads and led.

    Args:
        holder: Who has the lease, also if it ran out. None: it was released.
        reigns: The latest first.
        standbys: Living schedulers that do not lead.
    """

    holder: Holder | None
    reigns: Sequence[Reign]
    standbys: Sequence[Seen]


def fetch_leaders(connection: sa.Connection) -> Leaders:
    """Return who leads, the last ten who led, and who stands by."""
    holder = fetch_holder(connection)
    led = fetch_leaderships(connection, limit=_MOST)
    leads = None if holder is None or holder.is_stale else holder
    standbys = find_standbys(fetch_processes(connection), leads)
    now = read_clock(connection)
    since = led[-1].acquired_at if led else now
    unled = fetch_unled(connection, since=since)
    return Leaders(holder, list(_find_reigns(led, holder, unled, now)), standbys)


def find_standbys(seen: Iterable[Seen], holder: Holder | None) -> list[Seen]:
    """Return the living schedulers but for *holder*."""
    leads = None if holder is None else (holder.hostname, holder.pid)
    return [
        each
        for each in seen
        if each.process.role is ProcessRole.SCHEDULER
        and each.is_alive
        and (each.process.hostname, each.process.pid) != leads
    ]


def _find_reigns(
    led: Sequence[Leadership],
    holder: Holder | None,
    unled: Iterable[Unled],
    now: datetime,
) -> Iterator[Reign]:
    """Yield who *led* (the latest first), and before each when nobody did after it."""
    ends = {each.until: each.since for each in unled}
    begun: datetime | None = None
    for each in led:
        end, ended, is_exact = each.released_at, "released its lease", True
        if end is None:
            ended = "its lease ran out"
            if begun is not None:
                end, is_exact = ends.get(begun, begun), begun in ends
            elif holder is not None and holder.fence == each.fence:
                end = holder.expires_at if holder.is_stale else None
                ended = ended if holder.is_stale else ""
        if end is not None and is_exact and (begun or now) - end > _AT_ONCE:
            why = "no other scheduler took over" if begun else "start a scheduler"
            yield Reign(None, end, begun, None, why)
        yield Reign(each.hostname, each.acquired_at, end, each.fence, ended, is_exact)
        begun = each.acquired_at


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

    def covers(self, missed: datetime) -> bool:
        """Return whether an occurrence (aware) was missed because of it."""
        is_before = self.until is not None and missed >= self.until
        return self.since - BEGAN_LATE_AFTER <= missed and not is_before


def find_first_missed(row: MissedRow) -> datetime:
    """Return the first occurrence that the row of a missed operation tells of."""
    missed = read_missed(row.details)
    return row.occurrence if missed is None else missed.first


class MissedRow(Protocol):
    """A row of ``operations`` has it."""

    occurrence: datetime
    details: Mapping[str, Any] | None


def fetch_unled(connection: sa.Connection, *, since: datetime) -> list[Unled]:
    """
    Return the times in which nobody led, as far as they reach after *since* (aware).

    Who was killed has not said when it ended; then its last sign of life counts, or the
    first occurrence that was missed. Where there is neither, nothing is said.
    """
    led = fetch_leaderships(connection, limit=_LOOKED_AT)
    seen, holder = fetch_processes(connection), fetch_holder(connection)
    missed = _fetch_missed(connection, led, since)
    found = find_unled(led, seen, holder, now=read_clock(connection), missed=missed)
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
    schedulers = [each for each in seen if each.process.role is ProcessRole.SCHEDULER]
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
