"""Who leads, who led before and why that ended, and who stands by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.leader import Holder, Leadership, fetch_holder, fetch_leaderships
from models.database.engine import read_clock
from operations.fleet.processes import Role, Seen, fetch_processes
from overview.installation.unled import Unled, fetch_unled

#: The most leaderships that are told.
_MOST = 10

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
    standbys = [
        each
        for each in fetch_processes(connection)
        if each.process.role is Role.SCHEDULER
        and each.is_alive
        and not (
            holder is not None
            and not holder.is_stale
            and (each.process.hostname, each.process.pid)
            == (holder.hostname, holder.pid)
        )
    ]
    now = read_clock(connection)
    since = led[-1].acquired_at if led else now
    unled = fetch_unled(connection, since=since)
    return Leaders(holder, find_reigns(led, holder, unled, now=now), standbys)


def find_reigns(
    led: Sequence[Leadership],
    holder: Holder | None,
    unled: Iterable[Unled] = (),
    *,
    now: datetime,
) -> list[Reign]:
    """
    Return what *led* (the latest first) tells, with the times at which nobody led.

    Args:
        led: As recorded.
        holder: Who has the lease.
        unled: When nobody led, as far as that is known of leaders that were killed.
        now: Aware UTC.
    """
    ends = {each.until: each.since for each in unled}
    reigns: list[Reign] = []
    following: Leadership | None = None
    for each in led:
        reigns += _tell(each, following, holder, ends, now)
        following = each
    return reigns


def _tell(
    each: Leadership,
    following: Leadership | None,
    holder: Holder | None,
    ends: Mapping[datetime | None, datetime],
    now: datetime,
) -> Iterator[Reign]:
    """Yield the time after *each* without a leader, if there was one, then *each*."""
    end, ended, is_exact = each.released_at, "released its lease", True
    begun = None if following is None else following.acquired_at
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
