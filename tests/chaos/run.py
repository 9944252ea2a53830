"""Chaos from beginning to end: an installation, its faults, quiet, and the verdict."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import psutil
import redis
import sqlalchemy as sa

from actions.user_events import NewEvent, record_events
from dispatch.manual_runs import run_now
from models.database.engine import writing
from models.database.tables import operations
from models.errors import ConflictError, UnreachableError
from models.operation_state import LIVE_STATES, OperationState, Reason
from operations.cancel_and_retry import cancel, reopen
from tests.chaos.apps import EVENT, USERS
from tests.chaos.case import Case, shorten
from tests.chaos.faults import FAULTS, STORM_S, Fault, do, make_storm
from tests.chaos.ledger import Counts, Happening, judge, read_tasks
from tests.chaos.world import World, run_world
from tests.database import write_by

#: After the last fault everything must be final within this.
QUIET_WITHIN_S = 600

#: What a fault may raise when something is not as it should be; the others follow.
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

#: What a terminal shows of a fault.
_MOST_WRONG = 5


@dataclass(frozen=True, slots=True)
class Report:
    """
    What became of it all.

    Args:
        wrong: What broke a promise, a sentence each.
        counts: By subject, such as the states of operations.
        text: All that for people.
    """

    wrong: Sequence[str]
    counts: Counts
    text: str


class People(threading.Thread):
    """Users to whom something happens, and who run, cancel and try again by hand."""

    def __init__(self, world: World, rng: random.Random) -> None:
        """Begin with ``start``."""
        super().__init__(name="people")
        self._world = world
        self._rng = rng
        self._stopped = threading.Event()
        self.reopened: Counter[UUID] = Counter()

    def run(self) -> None:
        """Do something each second."""
        while not self._stopped.wait(1):
            # An answer that does not come says nothing about whether it was done.
            with suppress(UnreachableError, ConflictError):
                self._do(self._rng.choice(["event"] * 5 + ["run", "cancel", "retry"]))

    def _do(self, wish: str) -> None:
        engine, rng = self._world.engine, self._rng
        app = rng.choice([*self._world.uids])
        if wish == "event":
            event = NewEvent(
                app=app, name=EVENT, user_id=rng.choice(USERS), key=str(uuid4())
            )
            write_by(engine, record_events, [event])
            return
        if wish == "run":
            run_now(engine, rng.choice([*self._world.uids[app].values()]))
            return
        of = {
            "cancel": LIVE_STATES,
            "retry": {OperationState.FAILED, OperationState.CANCELED},
        }
        found = sa.select(operations.c.id).where(
            operations.c.state.in_(list(of[wish])),
            operations.c.id.not_in([*self._world.asked]),
        )
        with writing(engine) as connection:
            ids = sorted(connection.execute(found).scalars())
            if not ids:
                return
            chosen = rng.choice(ids)
            if wish == "cancel":
                cancel(connection, chosen, reason=Reason.CANCELED)
            else:
                self.reopened[chosen] += 1
                reopen(connection, chosen)

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        self.join()


def run_chaos(
    folder: Path, *, seconds: float, seed: int, names: Sequence[str], apps: int
) -> Report:
    """
    Do each fault to an installation in *folder*, and judge what became of it.

    Args:
        folder: For data and logs.
        seconds: How long it goes on at least: each fault comes once, and storms, if
            they are among the faults, after each third, the last, and until the end.
        seed: Of what the apps are like, what happens to them, and in which order.
        names: Of faults. None: all.
        apps: How many there are, each with a hundred actions.
    """
    rng = random.Random(seed)
    faults = [each for each in FAULTS if not names or each.name in names]
    rng.shuffle(faults)
    storms = not names or "storm" in names
    started_s, begun_at = time.monotonic(), datetime.now(UTC)
    with run_world(folder, rng, apps=apps) as world:
        say(f"{apps}00 actions; {len(faults)} faults; logs in {folder}")
        people, cases = People(world, random.Random(seed)), []
        try:
            world.wait_for_leader()
            world.wait_for_workers()
            people.start()
            begun_at, started_s = datetime.now(UTC), time.monotonic()
            for number, fault in enumerate(faults, start=1):
                cases.append(_do(world, fault))
                if storms and (number % 3 == 0 or number == len(faults)):
                    cases.append(_do(world, make_storm()))
            while storms and (left_s := seconds - time.monotonic() + started_s) > 0:
                cases.append(_do(world, make_storm(min(STORM_S, left_s))))
            world.pause(seconds - (time.monotonic() - started_s))
        finally:
            people.stop()
        say("waiting until nothing is left to do")
        quiet_s = _wait_until_quiet(world)
        world.look()
        for each in world.mails.killed:
            world.happenings.append(Happening("kill", "sender", each, each))
        counts, overall = judge(
            *(world.engine, cases, world.mails.messages),
            since=world.since,
            happenings=world.happenings,
            reopened=people.reopened,
            ran=read_tasks(world.tasks_done),
            begun_at=begun_at,
        )
        overall += world.ended
        _keep_tables(world, folder)
    if quiet_s is None:
        overall.append(f"not quiet after {QUIET_WITHIN_S} s")
    lasted_s = time.monotonic() - started_s
    wrong = [*overall, *(each for case in cases for each in case.wrong)]
    lines = [
        *(_describe(case) for case in cases),
        *(f"FAIL  {shorten(each, 300)}" for each in overall[:50]),
        *(f"{subject}: {_count(counter)}." for subject, counter in counts.items()),
        f"{lasted_s / 60:.1f} minutes, seed {seed}, quiet after {quiet_s or 0:.0f} s.",
    ]
    return Report(wrong, counts, "\n".join(lines))


def _keep_tables(world: World, folder: Path) -> None:
    """Write beside the logs what the judgement was made of, a row a line."""
    with world.engine.connect() as connection:
        for name in ("operations", "operation_steps", "chaos.moves"):
            select = sa.text(f"SELECT row_to_json(t)::text FROM {name} t")
            rows = connection.execute(select).scalars()
            (folder / f"{name}.jsonl").write_text("\n".join(rows))


def say(text: str) -> None:
    """Tell whoever waits what happens at this moment."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def _do(world: World, fault: Fault) -> Case:
    case = Case(fault.name, is_strict=fault.name != "storm")
    say(f"{fault.name} ...")
    try:
        do(fault, world, case)
    except _OF_FAULTS as error:
        case.wrong.append(shorten(f"{type(error).__name__}: {error}", 300))
    world.pause(_BREATHER_S)
    case.wrong += world.ended
    world.ended.clear()
    say(f"    {'; '.join(case.wrong or case.notes)}")
    return case


def _wait_until_quiet(world: World) -> float | None:
    """Wait until nothing is left, and stop time there; return how long that took."""
    started_s = time.monotonic()
    # What Celery makes of all that was done to its broker is not our doing.
    world.kill(world.project)
    world.start(world.project)

    def is_over() -> bool:
        for each in world.schedulers:
            each.thaw()
        world.hurry()
        if world.installation.count_live():
            return False
        # The next tick records more, so nobody may tick until that is judged.
        for each in world.schedulers:
            each.freeze()
        return world.installation.count_live() == 0

    try:
        world.wait(is_over, what="quiet", timeout_s=QUIET_WITHIN_S, every_s=0.5)
    except AssertionError:
        return None
    return time.monotonic() - started_s


def _describe(case: Case) -> str:
    found = case.wrong[:_MOST_WRONG] if case.wrong else case.notes
    more = len(case.wrong) - _MOST_WRONG
    text = "; ".join([*found, *([f"and {more} more"] if more > 0 else [])])
    verdict = "FAIL" if case.wrong else "LEFT" if case.is_left_out else "PASS"
    return f"{verdict}  {case.name}: {text}"


def _count(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {what}" for what, n in sorted(counter.items())) or "none"
