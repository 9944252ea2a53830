"""Faults of our own processes: killed, frozen, gone for a while."""

from __future__ import annotations

import signal
import time

from tests.chaos.apps import DATA, MAIL, SEND
from tests.chaos.case import Case
from tests.drill.world import LEASES, World, find_tree
from tests.servers import wait_until

#: How long a frozen leader stays so once another leads: a few heartbeats.
_STAYS_FROZEN_S = 5.0


def kill_child(world: World, case: Case) -> None:
    """Kill a worker's child in the middle of a mail, whose fate nobody knows then."""
    children = _count_children(world)
    killed = world.mails.killed
    world.mails.deadly = 1
    case.must_end += world.ask_for(MAIL, 1)
    world.wait(lambda: world.mails.killed > killed, what="a mail")
    case.start()
    case.expect_doctor(world.ask_doctor, r"^(bad|look) .*uncertain")
    world.wait(
        lambda: _count_children(world) >= children, what="another child in its place"
    )
    case.notes.append("another child in its place")


def _count_children(world: World) -> int:
    names = [name for name in world.workers if name.startswith("quick")]
    return sum(len(find_tree(world.workers[name])) - 1 for name in names)


def kill_leader(world: World, case: Case) -> None:
    """Kill who leads; the other takes over within the lease."""
    leader, fence = world.wait_for_leader()
    case.start()
    world.kill(leader)
    other, _ = world.wait_for_leader(beyond=fence)
    case.notes.append(f"the standby led after {case.age_s:.0f} s")
    if other is leader:
        case.wrong.append("nobody took over from the leader that was killed")
    case.expect_doctor(world.ask_doctor, rf"leader: .*pid {other.pid}\b")
    world.start(leader)


def freeze_leader(world: World, case: Case) -> None:
    """Freeze who leads in the middle of a tick, and thaw it when another leads."""
    leader, fence = world.wait_for_leader()
    world.wait(lambda: time.time() % 60 < 1, what="a minute", every_s=0.05)
    case.start()
    leader.freeze()
    try:
        other, taken = world.wait_for_leader(beyond=fence)
        case.notes.append(
            f"another led after {case.age_s:.0f} s (lease {LEASES['LEASE_TTL']})"
        )
        case.expect_doctor(world.ask_doctor, rf"leader: .*pid {other.pid}\b")
        world.pause(_STAYS_FROZEN_S)
    finally:
        leader.thaw()
    world.pause(_STAYS_FROZEN_S)
    now, fence = world.wait_for_leader()
    if (now, fence) != (other, taken):
        case.wrong.append(f"fence {fence} of {now.name} after {leader.name} thawed")
    else:
        case.notes.append("thawed, it stands by")


def deploy(world: World, case: Case) -> None:
    """Replace every process in turn, as the installation of a new version does."""
    case.start()
    for process in world.processes:
        case.must_end += world.ask_for(SEND, 2)
        world.replace(process, signal.SIGTERM)
    world.wait_for_leader()
    world.wait_for_workers()
    case.notes.append(f"{len(world.processes)} replaced in {case.age_s:.0f} s")


def kill_worker(world: World, case: Case) -> None:
    """Kill a whole worker, and leave its queue without one until doctor says so."""
    heavy = world.workers["heavy"]
    case.must_end += world.run(DATA, app="app-01", force=True)
    case.start()
    world.kill(heavy)
    try:
        case.expect_doctor(world.ask_doctor, r"^bad queue heavy: no worker")
    finally:
        world.start(heavy)
    started_s = time.monotonic()
    wait_until(lambda: len(find_tree(heavy)) > 1, timeout_s=60, what="its children")
    case.notes.append(f"back after {time.monotonic() - started_s:.0f} s")
