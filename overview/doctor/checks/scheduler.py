"""Whether a scheduler leads, ticks and can send, and whether it is asked to rest."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from actions.lease import Holder, get_set_back
from models.database.engine import TOLERATED_SKEW
from models.units import format_age
from overview.doctor.finding import Finding, Health, View
from overview.doctor.thresholds import LAG_LONG, LOST_BEATS, TICK_LATE_AFTER
from overview.installation.leaders import find_standbys

_UNLED = (
    "Until one leads, nothing new is recorded or sent. What falls due meanwhile runs if"
    " one comes back within the look-back; what is older follows catch_up, and is"
    " recorded as missed otherwise."
)


def look_at_leader(view: View) -> Iterator[Finding]:
    """Look for a leader and its heartbeats, and for who would take over."""
    holder = view.holder
    if holder is None:
        detail = f"no scheduler leads. Start one: {_name_starter(view)}. {_UNLED}"
        yield Finding("leader", Health.BAD, detail, "no scheduler leads")
        return
    name = f" {holder.hostname} (pid {holder.pid})" if view.app is None else ""
    age = format_age(holder.heartbeat_age)
    found = f"the leader{name} gave its last heartbeat {age} ago"
    if _is_beating(view, holder):
        yield Finding("leader", Health.GOOD, found)
        return
    left = holder.expires_at - view.now
    standbys = find_standbys(view.seen, holder)
    every = format_age(view.settings.lease_heartbeat)
    dead = f"{found}, and one is due every {every}: it is dead, frozen or cut off."
    title, health = "the leader is dead or cut off", Health.BAD
    if holder.is_stale:
        title = "no scheduler leads"
        ran_out = format_age(-left)
        then = f"Its lease ran out {ran_out} ago, and no standby has taken it."
        if not standbys:
            then = f"{then} Start a scheduler: {_name_starter(view)}."
        then = f"{then} {_UNLED}"
    elif standbys:
        health = Health.DOUBTFUL
        first = standbys[0].process
        name = f"{first.name} (pid {first.pid})" if view.app is None else "a standby"
        then = f"{name} takes over in {format_age(left)}."
    else:
        starter = _name_starter(view)
        then = (
            f"There is no standby. Start a scheduler: {starter}. It leads in"
            f" {format_age(left)}. {_UNLED}"
        )
    yield Finding("leader", health, f"{dead} {then}", title, holder.heartbeat_at)


def _is_beating(view: View, holder: Holder) -> bool:
    # One second more, since writing a heartbeat takes a moment.
    most = LOST_BEATS * view.settings.lease_heartbeat + timedelta(seconds=1)
    return holder.heartbeat_age <= most and not holder.is_stale


def _name_starter(view: View) -> str:
    return view.settings.name_starter("minutehand scheduler")


def look_at_tick(view: View) -> Iterator[Finding]:
    """Look at the age of the last tick; a new leader is given time for its first."""
    ticked_at, holder = view.ticked_at, view.holder
    is_led = holder is not None and _is_beating(view, holder)
    is_late = is_tick_late(holder, ticked_at, view.now)
    found = "there has never been one"
    if ticked_at is not None:
        found = f"the last one was {format_age(view.now - ticked_at)} ago"
        if is_ahead(ticked_at, view.now):
            found = f"the last one lies {format_age(ticked_at - view.now)} ahead"
            ticked_at = None  # since when there is none is unknown
    if not is_late:
        yield Finding("tick", Health.GOOD, found)
    elif not is_led:
        # The leader's finding says why, and what to do.
        yield Finding("tick", Health.BAD, found, "nobody ticks", ticked_at)
    else:
        detail = (
            f"{found}, though a scheduler leads. It holds the lease, so no other takes"
            " over. Look at its log, or stop it: a standby leads within a minute."
        )
        title = "the scheduler does not tick"
        yield Finding("tick", Health.BAD, detail, title, ticked_at)


def is_tick_late(
    holder: Holder | None, ticked_at: datetime | None, now: datetime
) -> bool:
    """Return whether a tick is due that has not come; *now* is the database's clock."""
    led_since = None if holder is None or holder.is_stale else holder.acquired_at
    known = [e for e in (ticked_at, led_since) if e and not is_ahead(e, now)]
    return not known or now - max(known) > TICK_LATE_AFTER


def is_ahead(at: datetime, now: datetime) -> bool:
    """Return whether *at* is of a clock that was set back since."""
    return at - now > TOLERATED_SKEW


def look_at_set_back(view: View) -> Iterator[Finding]:
    """Say that the database's clock was set back, until it has caught up."""
    back = get_set_back(view.connection)
    if back is None or (back.was <= view.now and back.recomputed_until is None):
        return
    by = format_age(back.was - back.to)
    done = "Due instants were computed again"
    if back.recomputed_until is not None:
        done = "Due instants are being computed again, a thousand actions at a time"
    detail = (
        f"the database's clock was set back by {by}, to {view.show(back.to)}. What ran"
        f" before, up to {view.show(back.was)}, does not run again; what waited to be"
        f" sent is sent. {done}. Let a daemon (NTP) slew the clock, and never set it."
    )
    title = "the database's clock was set back"
    yield Finding("clock", Health.DOUBTFUL, detail, title, back.to)


def look_at_sending(view: View) -> Iterator[Finding]:
    """Repeat the broker's last error to the leader; no finding if sending works."""
    failure = view.send_failure
    if failure is not None:
        since = view.show(failure.since)
        error = "" if view.app is not None else f": {failure.error.removesuffix('.')}"
        detail = (
            f"the scheduler has failed to send since {since}{error}. What falls due is"
            " recorded, and is sent as soon as the broker answers."
        )
        title = "the broker takes nothing"
        yield Finding("sending", Health.BAD, detail, title, failure.since)


def look_at_lag(view: View) -> Iterator[Finding]:
    """Look at how long operations wait from being recorded to their start."""
    p95 = view.lag.p95
    if p95 is None or p95 < LAG_LONG:
        found = "operations begin in time"
        yield Finding("lag", Health.GOOD, found)
        return
    detail = (
        f"the slowest 5 % of the last hour's operations began {format_age(p95)} or"
        " more after they were recorded: a broker that was away, or too few workers."
    )
    yield Finding("lag", Health.DOUBTFUL, detail, "operations begin late")


def look_at_pauses(view: View) -> Iterator[Finding]:
    """Look whether everything (of the app) is paused."""
    pause, what = view.pause, "everything" if view.app is None else "the app"
    if pause is not None:
        by = "" if pause.by is None else f" by {pause.by}"
        note = "" if pause.note is None else f" ({pause.note})"
        end = "somebody resumes it" if pause.until is None else view.show(pause.until)
        detail = (
            f"{what} is paused{by} until {end}{note}. Nothing new is recorded. What"
            " runs goes on, and runs by hand start."
        )
        title = f"{what} is paused"
        yield Finding("pause", Health.DOUBTFUL, detail, title, pause.at)
