"""When nobody led, from who led and who gave signs of life."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from actions.lease import Holder, Leadership
from operations.fleet.processes import Process, ProcessRole, Seen
from overview.installation.leaders import find_reigns

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


HOLDER, STALE = make_holder(0), make_holder(5)
#: The row of a process that was killed stays for a day.
KILLED = Seen(
    Process(ProcessRole.SCHEDULER, "s", "host1", 1, "0", "0", {}),
    NOW - 90 * MINUTE,
    NOW - 72 * MINUTE,
    72 * MINUTE,
)
#: Perhaps the first led until the other took over.
NO_SIGN = [led(2, 50, None), led(1, 90, None)]


@pytest.mark.parametrize(
    ("history", "seen", "holder", "missed", "stretches"),
    [
        # At once is no stretch.
        ([led(3, 10, None), led(2, 50, 10), led(1, 90, 72)], [], HOLDER, 0, [(72, 50)]),
        (NO_SIGN, [KILLED], HOLDER, 0, [(72, 50)]),
        (NO_SIGN, [], HOLDER, 61, [(61, 50)]),
        (NO_SIGN, [], HOLDER, 0, []),
        ([led(2, 90, None)], [], STALE, 0, [(5, None)]),
        ([led(2, 90, 7)], [], None, 0, [(7, None)]),
        ([], [], None, 0, []),
    ],
    ids=["released", "killed", "missed", "no sign", "ran out", "free", "new"],
)
def test_stretches_without_a_leader_are_found(
    history: list[Leadership],
    seen: list[Seen],
    holder: Holder | None,
    missed: int,
    stretches: list[tuple[int, int | None]],
):
    """By what was released, last signs, and what was missed; minutes are before NOW."""
    first_missed = {2: NOW - missed * MINUTE} if missed else {}

    found = find_reigns(history, seen, holder, now=NOW, missed=first_missed)

    assert [
        (NOW - since * MINUTE, None if until is None else NOW - until * MINUTE)
        for since, until in stretches
    ] == [(each.since, each.until) for each in found if each.who is None]
