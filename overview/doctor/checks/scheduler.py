"""Whether a scheduler leads, ticks and can send."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from actions.leader import fetch_leader, get_last_tick_at, get_send_failure
from models.units import format_age
from overview.doctor.finding import Finding, Health, View

#: A leader ticks every minute; if the last tick is older than this, it is late.
LATE_TICK = timedelta(minutes=3)

#: Heartbeats that may be missing: one of them may just be on its way.
_LOST_BEATS = 2


def look_at_leader(view: View) -> Iterator[Finding]:
    """Look for a leader and its heartbeats."""
    holder = fetch_leader(view.connection)
    if holder is None:
        starter = view.settings.name_starter("minutehand scheduler")
        found = f"no scheduler leads. Start one: {starter}"
        yield Finding("leader", Health.BAD, found)
        return
    age = format_age(holder.heartbeat_age)
    found = f"{holder.hostname} (pid {holder.pid}), heartbeat {age} ago"
    # One second more, since writing a heartbeat takes a moment.
    most = _LOST_BEATS * view.settings.lease_heartbeat + timedelta(seconds=1)
    if holder.heartbeat_age <= most:
        yield Finding("leader", Health.GOOD, found)
        return
    left = format_age(holder.expires_at - view.now)
    every = format_age(view.settings.lease_heartbeat)
    yield Finding(
        "leader",
        Health.DOUBTFUL,
        f"{found}, though one is due every {every}: it hangs, or cannot reach the "
        f"database. A standby takes over in {left}, if there is one.",
    )


def look_at_tick(view: View) -> Iterator[Finding]:
    """Look at the age of the last tick."""
    ticked_at = get_last_tick_at(view.connection)
    if ticked_at is None:
        yield Finding("tick", Health.BAD, "there has never been one")
        return
    late = view.now - ticked_at > LATE_TICK
    found = f"the last one was {format_age(view.now - ticked_at)} ago"
    yield Finding("tick", Health.BAD if late else Health.GOOD, found)


def look_at_sending(view: View) -> Iterator[Finding]:
    """Repeat the broker's last error to the leader; no finding if sending works."""
    failure = get_send_failure(view.connection)
    if failure is not None:
        since = view.show(failure.since)
        found = f"the scheduler has failed to send since {since}: {failure.error}"
        yield Finding("sending", Health.BAD, found)
