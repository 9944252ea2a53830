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
        since: Aware UTC. Of nobody: the last sign of who led before, or the first
            occurrence that was missed.
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

    def covers(self, missed: datetime) -> bool:
        """Return whether an occurrence (aware) was missed because of it."""
        is_before = self.until is not None and missed >= self.until
        return self.since - BEGAN_LATE_AFTER <= missed and not is_before


@dataclass(frozen=True, slots=True)
class Leaders:
    """
    Who leads and led.

    Args:
        holder: Who has the lease, also if it ran out. None: it was released.
        reigns: The latest first.
        standbys: Living schedulers that do not lead.
        now: Aware UTC, by the database's clock.
    """

    holder: Holder | None
    reigns: Sequence[Reign]
    standbys: Sequence[Seen]
    now: datetime


def fetch_leaders(
    connection: sa.Connection, *, most: int = _MOST, since: datetime | None = None
) -> Leaders:
    """
    Return who leads, the last ones who led, and who stands by.

    Who was killed has not said when it ended; then its last sign of life counts, or the
    first occurrence that was missed. Where there is neither, nobody knows.

    Args:
        most: How many who led.
        since: Aware; of what ended before, what was missed is not asked for. None: of
            all.
    """
    now, holder = read_clock(connection), fetch_holder(connection)
    led, seen = fetch_leaderships(connection, limit=most), fetch_processes(connection)
    missed = _fetch_missed(connection, led, since)
    leads = None if holder is None or holder.is_stale else holder
    reigns = list(find_reigns(led, seen, holder, now=now, missed=missed))
    return Leaders(holder, reigns, find_standbys(seen, leads), now)


def fetch_unled(connection: sa.Connection, *, since: datetime) -> list[Reign]:
    """Return when nobody led, oldest first, as far as it reaches after *since*."""
    found = fetch_leaders(connection, most=_LOOKED_AT, since=since)
    return [
        each
        for each in reversed(found.reigns)
        if each.who is None
        and (each.until is None or each.until > since)
        and (each.until or found.now) - each.since >= SHORTEST
    ]


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


def find_first_missed(row: MissedRow) -> datetime:
    """Return the first occurrence that the row of a missed operation tells of."""
    missed = read_missed(row.details)
    return row.occurrence if missed is None else missed.first


class MissedRow(Protocol):
    """A row of ``operations`` has it."""

    occurrence: datetime
    details: Mapping[str, Any] | None


def _fetch_missed(
    connection: sa.Connection, led: Sequence[Leadership], since: datetime | None
) -> dict[int, datetime]:
    """Return the first occurrence that each new leader found missed, by its fence."""
    kept = operations.c
    found = {}
    for later, former in pairwise(led):
        is_asked = since is None or later.acquired_at > since
        if former.released_at is not None or not is_asked:
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


def find_reigns(
    led: Sequence[Leadership],
    seen: Sequence[Seen],
    holder: Holder | None,
    *,
    now: datetime,
    missed: Mapping[int, datetime],
) -> Iterator[Reign]:
    """
    Yield who *led* (the latest first), and before each when nobody did after it.

    Args:
        led: Leaderships, the latest first.
        seen: Processes, alive or not.
        holder: Who has the lease, or let it run out. None: it was released.
        now: Aware UTC.
        missed: The first occurrence (aware UTC) that a leader found missed, by fence.
    """
    later: Leadership | None = None
    for each in led:
        end, ended = each.released_at, "released its lease"
        begun = None if later is None else later.acquired_at
        if end is None:
            ended = "its lease ran out"
            if later is not None:
                end = _find_sign(each, seen) or missed.get(later.fence)
                end = end if end and later.acquired_at - end >= SHORTEST else None
            elif holder is not None:
                end = holder.heartbeat_at if holder.is_stale else None
                ended = ended if holder.is_stale else ""
        if end is not None and (begun or now) - end > _AT_ONCE:
            why = "no other scheduler took over" if later else "start a scheduler"
            yield Reign(None, end, begun, None, why)
        is_exact = end is not None or later is None
        until = end or begun
        yield Reign(
            *(each.hostname, each.acquired_at, until, each.fence, ended), is_exact
        )
        later = each


def _find_sign(former: Leadership, seen: Iterable[Seen]) -> datetime | None:
    """Return when who led gave its last sign of life."""
    signs = [
        each.heartbeat_at
        for each in seen
        if each.process.role is ProcessRole.SCHEDULER
        and each.process.hostname == former.hostname
        and each.process.pid == former.pid
        and each.started_at - SHORTEST <= former.acquired_at <= each.heartbeat_at
    ]
    return max(signs, default=None)
