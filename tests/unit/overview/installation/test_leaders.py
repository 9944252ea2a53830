"""When nobody led, from who led and who gave signs of life."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from actions.lease import Holder, Leadership
from operations.fleet.processes import Process, ProcessRole, Seen
from overview.installation.leaders import Unled, find_unled

NOW = datetime(2026, 10, 20, 2, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def led(fence: int, since: int, until: int | None) -> Leadership:
    """Return a leadership of a host of its own; minutes are before NOW."""
    return Leadership(
        fence,
        f"host{fence}",
        1,
        NOW - since * MINUTE,
        None if until is None else NOW - until * MINUTE,
    )


def make_holder(age: int) -> Holder:
    """Return who has the lease, with a heartbeat that many minutes ago."""
    return Holder(
        hostname="host",
        pid=1,
        acquired_at=NOW - 90 * MINUTE,
        heartbeat_at=NOW - age * MINUTE,
        expires_at=NOW - (age - 1) * MINUTE,
        fence=2,
        last_tick_at=None,
        now=NOW,
    )


HOLDER = make_holder(0)


def test_released_lease_begins_a_stretch():
    """Until somebody takes it; a short one is none."""
    history = [led(3, 10, None), led(2, 50, 10), led(1, 90, 72)]

    assert [Unled(NOW - 72 * MINUTE, NOW - 50 * MINUTE)] == find_unled(
        history, [], HOLDER, now=NOW
    )


def test_killed_leader_ended_with_its_last_sign():
    """The row of a process that was killed stays for a day."""
    process = Process(ProcessRole.SCHEDULER, "s", "host1", 1, "0", "0", {})
    seen = Seen(process, NOW - 90 * MINUTE, NOW - 72 * MINUTE, 72 * MINUTE)
    history = [led(2, 50, None), led(1, 90, None)]

    assert [Unled(NOW - 72 * MINUTE, NOW - 50 * MINUTE)] == find_unled(
        history, [seen], HOLDER, now=NOW
    )


def test_what_was_missed_tells_when_nobody_led():
    """Where a killed leader has left no sign."""
    history = [led(2, 50, None), led(1, 90, None)]

    assert [Unled(NOW - 61 * MINUTE, NOW - 50 * MINUTE)] == find_unled(
        history, [], HOLDER, now=NOW, missed={2: NOW - 61 * MINUTE}
    )


def test_nothing_is_said_without_a_sign():
    """Perhaps it led until the other took over."""
    history = [led(2, 50, None), led(1, 90, None)]

    assert [] == find_unled(history, [], HOLDER, now=NOW)


def test_stretch_that_lasts_has_no_end():
    """A lease that ran out, or one that was released."""
    stale = make_holder(5)

    assert [Unled(NOW - 5 * MINUTE, None)] == find_unled(
        [led(2, 90, None)], [], stale, now=NOW
    )
    assert [Unled(NOW - 7 * MINUTE, None)] == find_unled(
        [led(2, 90, 7)], [], None, now=NOW
    )


def test_new_installation_has_no_stretch():
    assert [] == find_unled([], [], None, now=NOW)
