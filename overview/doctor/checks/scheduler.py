"""Whether somebody leads, ticks and can send."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from actions.leader import fetch_leader, get_last_tick_at, get_send_failure
from models.units import format_age, show_instant
from overview.doctor.finding import Finding, Health, View

#: A leader ticks each minute; this many are missing if the last is older.
LATE_TICK = timedelta(minutes=3)

#: Lost heartbeats of a leader, of which one may always be on its way.
_LOST_BEATS = 2


def look_at_leader(view: View) -> Iterator[Finding]:
    """Look for a leader, and for its heartbeats."""
    holder = fetch_leader(view.connection)
    if holder is None:
        starter = view.name_starter("minutehand scheduler")
        found = f"no scheduler leads. Start one: {starter}"
        yield Finding("leader", Health.BAD, found)
        return
    age = format_age(holder.heartbeat_age)
    found = f"{holder.hostname} (pid {holder.pid}), heartbeat {age} ago"
    # A second beyond, for a beat takes a moment to be written.
    most = _LOST_BEATS * view.settings.lease_heartbeat + timedelta(seconds=1)
    if holder.heartbeat_age <= most:
        yield Finding("leader", Health.GOOD, found)
        return
    left = format_age(holder.expires_at - view.now)
    every = format_age(view.settings.lease_heartbeat)
    yield Finding(
        "leader",
        Health.DOUBTFUL,
        f"{found}, though it gives one every {every}: does it hang, or is it cut off? "
        f"Another takes over in {left} if one stands by.",
    )


def look_at_tick(view: View) -> Iterator[Finding]:
    """Look at the age of the last tick."""
    ticked_at = get_last_tick_at(view.connection)
    if ticked_at is None:
        yield Finding("tick", Health.BAD, "there never was one")
        return
    late = view.now - ticked_at > LATE_TICK
    found = f"the last was {format_age(view.now - ticked_at)} ago"
    yield Finding("tick", Health.BAD if late else Health.GOOD, found)


def look_at_sending(view: View) -> Iterator[Finding]:
    """Repeat what the broker told the leader; nothing if it takes what is sent."""
    failure = get_send_failure(view.connection)
    if failure is not None:
        since = show_instant(failure.since)
        found = f"the scheduler's attempts have failed since {since}: {failure.error}"
        yield Finding("sending", Health.BAD, found)
