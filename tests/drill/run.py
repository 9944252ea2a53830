"""The drill from beginning to end: a world, each fault once, quiet, and the verdict."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil
import redis
import sqlalchemy as sa

from models.errors import UnreachableError
from tests.chaos.case import Case, shorten
from tests.drill.faults import FAULTS, Fault
from tests.drill.verdict import Verdict, judge
from tests.drill.world import Load, World, run_world
from tests.scheduling import get_now

#: After the last fault everything must be final within this.
QUIET_WITHIN_S = 600

#: What no tick exceeds while the database answers and somebody leads.
LATE = timedelta(seconds=2)

#: What a fault may raise when something is not as it should be; the drill goes on.
_OF_FAULTS = (
    AssertionError,
    OSError,
    UnreachableError,
    psutil.Error,
    redis.RedisError,
    sa.exc.SQLAlchemyError,
    subprocess.SubprocessError,
)

#: Between two faults, so that each meets an installation at work.
_BREATHER_S = 3.0

#: What a terminal shows of a line.
_MOST_WRONG = 5


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict, and a *text* for people."""

    cases: Sequence[Case]
    overall: Sequence[str]
    text: str

    @property
    def is_pass(self) -> bool:
        """Whether every promise was kept."""
        return not self.overall and not any(case.wrong for case in self.cases)


def run_drill(
    folder: Path, *, minutes: float, seed: int, only: Sequence[str] = ()
) -> Report:
    """
    Do each fault once to an installation in *folder*, and judge what became of it.

    Args:
        folder: For data and logs.

        minutes: The work goes on for so long at least, faults or not.

        seed: Of what the apps are like, and what happens to their users.

        only: Names of faults. None: all.
    """
    faults = [fault for fault in FAULTS if not only or fault.name in only]
    started_s = time.monotonic()
    with run_world(folder, random.Random(seed)) as world:
        say(f"{len(world.uids)} actions; {len(faults)} faults; logs in {folder}")
        load = Load(world, random.Random(seed))
        load.start()
        cases = []
        try:
            world.wait_for_leader()
            world.wait_for_workers()
            for fault in faults:
                cases.append(_do(world, fault))
                world.pause(_BREATHER_S)
            world.pause(minutes * 60 - (time.monotonic() - started_s))
        finally:
            load.stop()
        say("waiting until nothing is left to do")
        quiet_s = _wait_until_quiet(world)
        world.look()
        verdict = judge(world, cases)
    if quiet_s is None:
        verdict.overall.append(f"not quiet after {QUIET_WITHIN_S} s")
    lasted_s = time.monotonic() - started_s
    return _describe(cases, verdict, lasted_s, quiet_s, seed)


def say(text: str) -> None:
    """Tell whoever waits what happens at this moment."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def _do(world: World, fault: Fault) -> Case:
    case = Case(fault.name, fault.title, get_now(world.engine))
    say(f"{fault.title} ...")
    try:
        fault.do(world, case)
    except _OF_FAULTS as error:
        case.wrong.append(shorten(f"{type(error).__name__}: {error}", 300))
    case.wrong += world.ended
    world.ended.clear()
    late = world.find_lateness(case.begun_at)
    told = f"ticks at most {late.total_seconds():.1f} s late"
    (case.wrong if late > LATE and not fault.is_late else case.notes).append(told)
    say(f"    {'; '.join(case.wrong or case.notes)}")
    return case


def _wait_until_quiet(world: World) -> float | None:
    """Wait until nothing is left, and stop time there; return how long that took."""
    started_s = time.monotonic()

    def is_over() -> bool:
        try:
            world.installation.hurry_all()
            if world.installation.count_live():
                return False
            # The next tick records more, so nobody may tick until that is judged.
            for each in world.schedulers:
                each.freeze()
            if world.installation.count_live() == 0:
                return True
        except UnreachableError:
            pass
        for each in world.schedulers:
            each.thaw()
        return False

    try:
        world.wait(is_over, what="quiet", timeout_s=QUIET_WITHIN_S, every_s=0.5)
    except AssertionError:
        return None
    return time.monotonic() - started_s


def _describe(
    cases: Sequence[Case],
    verdict: Verdict,
    lasted_s: float,
    quiet_s: float | None,
    seed: int,
) -> Report:
    lines = []
    for case in cases:
        found = case.wrong[:_MOST_WRONG] if case.wrong else case.notes
        more = len(case.wrong) - _MOST_WRONG
        text = "; ".join([*found, *([f"and {more} more"] if more > 0 else [])])
        lines.append(f"{'FAIL' if case.wrong else 'PASS'}  {case.title}: {text}")
    lines += [f"FAIL  {shorten(each, 300)}" for each in verdict.overall[:50]]

    def count(counted: Counter[str]) -> str:
        return ", ".join(f"{n} {name}" for name, n in sorted(counted.items()))

    quiet = "never quiet" if quiet_s is None else f"quiet after {quiet_s:.0f} s"
    lines.append(
        f"{lasted_s / 60:.1f} minutes, seed {seed}, {quiet}."
        f" Operations: {count(verdict.states)}."
        f" Mails: {verdict.mails} arrived ({count(verdict.deliveries)})."
        f" Doubled: {verdict.doubled}. Lost: {verdict.lost}."
        f" Tasks that run_task sent: {len(verdict.tasks)} ran,"
        f" {sum(n > 1 for n in verdict.tasks.values())} of them twice."
    )
    return Report(cases, verdict.overall, "\n".join(lines))
