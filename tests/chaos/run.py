"""Chaos from beginning to end: a world, its faults, quiet, and the verdict."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from models.errors import UnreachableError
from tests.chaos.faults import Chaos
from tests.chaos.ledger import Verdict, judge
from tests.chaos.world import World, run_world

#: After the last fault everything must be final within this. What waits in line
#: (overlap: queue) goes on one by one, about one a second for each action.
QUIET_WITHIN_S = 360


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict, and a *text* for people."""

    verdict: Verdict
    text: str


def run_chaos(folder: Path, *, seconds: float, seed: int) -> Report:
    """Hurt a world in *folder* for *seconds*, wait until it is quiet, and judge it."""
    with run_world(folder) as world:
        chaos = Chaos(world, seed)
        chaos.run(seconds)
        world.mails.is_deadly = False
        started_at = time.monotonic()
        is_quiet = _wait_until_quiet(world)
        chaos.look_for_ended()
        quiet_s = time.monotonic() - started_at
        for process in world.processes:
            process.kill()
        verdict = judge(world)
        chaos.done["kill worker in the middle of a mail"] = world.mails.killed
    verdict.faults.extend(chaos.ended)
    if not is_quiet:
        verdict.faults.append(f"not quiet after {quiet_s:.0f} s")
    return Report(verdict, _describe(seconds, seed, quiet_s, chaos.done, verdict))


def _wait_until_quiet(world: World) -> bool:
    """Wait until nothing is left to do; what would wait for minutes goes at once."""
    give_up_at = time.monotonic() + QUIET_WITHIN_S
    while time.monotonic() < give_up_at:
        time.sleep(0.5)
        try:
            world.installation.hurry_all()
            if world.installation.count_live() == 0:
                return True
        except UnreachableError:
            continue
    return False


def _describe(
    seconds: float, seed: int, quiet_s: float, done: Counter[str], verdict: Verdict
) -> str:
    def count(counted: Counter[str]) -> str:
        return ", ".join(f"{name} {n}" for name, n in sorted(counted.items()))

    lines = [
        f"{seconds:.0f} s of chaos, seed {seed}: survived {count(done)}.",
        f"Quiet after {quiet_s:.0f} s; {verdict.leaders} times a scheduler took over.",
        f"Operations: {count(verdict.states)}.",
        f"Mails: {verdict.mails} arrived; marks: {count(verdict.deliveries)}.",
        f"Broken promises: {len(verdict.faults)}",
        *(f"  {fault}" for fault in verdict.faults[:50]),
    ]
    return "\n".join(lines)
