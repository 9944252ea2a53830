"""
A simulated world: everything that one seed decides, from its first second to the
last operation that became final.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from uuid import UUID

import sqlalchemy as sa

from models.operation_state import Queue
from operations.foreign_tasks import ForeignTask
from tests.simulation.actors import (
    FREEZES,
    People,
    first_hour,
    run_reader,
    run_scheduler,
    start_worker,
)
from tests.simulation.broker import Broker
from tests.simulation.database import get_database
from tests.simulation.ending import check_ending, count_late, count_live, pause_all
from tests.simulation.faults import Fault, Faults, Place
from tests.simulation.invariants import InvariantError, Invariants
from tests.simulation.loop import HOUR, MINUTE, SECOND, Crash, Loop, Process
from tests.simulation.outages import plan_outages
from tests.simulation.own_tasks import TheirApplication, check_task
from tests.simulation.ports import MailServer
from tests.simulation.scenario import set_up
from tests.simulation.strain import strain

#: The deadline of a database call: settings.database_timeout.
DEADLINE = 10 * SECOND

#: After the last fault, everything must be final within this.
PATIENCE = 4 * HOUR

#: Name, queues and slots of each worker process.
WORKERS: tuple[tuple[str, frozenset[Queue], int], ...] = (
    ("quick-1", frozenset({Queue.QUICK, Queue.DEFAULT}), 2),
    ("quick-2", frozenset({Queue.QUICK}), 1),
    ("heavy-1", frozenset({Queue.HEAVY}), 1),
    ("heavy-2", frozenset({Queue.HEAVY, Queue.QUICK}), 1),
)

SCHEDULERS = ("scheduler-1", "scheduler-2")

#: The threads of schedulers that read answers: what they do asks for no leadership, so
#: they live and die by themselves here.
READERS = ("reader-1", "reader-2")


#: Schedulers read this column in the query for what is due, and nowhere else.
_READS_DUE = "catch_up_within"


@dataclass(frozen=True, slots=True)
class Emphasis:
    """
    What a world has more of, to find a mistake that few worlds would show.

    Args:
        clock_jumps: Whether its clock jumps (and nobody edits); None: as drawn.
        races: How many times as often people edit while a tick decides.
        outages: Of outages.Outages, besides those that are drawn.
        strain: Whether nothing fails for a while, and much is to be done: strain.py.
        seconds: Whether an action is due more often than once a minute.
        follow: Whether actions begin as others end.
        expects: Whether actions expect to end soon, which they do not always.
    """

    clock_jumps: bool | None = None
    races: float = 1
    outages: tuple[str, ...] = ()
    strain: bool = False
    seconds: bool = False
    follow: bool = False
    expects: bool = False


_AS_DRAWN = Emphasis()


@dataclass(frozen=True, slots=True)
class Report:
    """What a world was like; *digest* is of everything that happened in it."""

    seed: int
    digest: str
    faults: Counter[str]
    figures: Counter[str] = field(default_factory=Counter)


class World:
    """
    One seed.

    Args:
        seed: Decides everything.
        hours: Simulated hours with faults; without them it goes on to the end.
        say: Told every line of what happens; None: nobody.
        emphasis: What there is more of than drawn.
    """

    def __init__(
        self,
        seed: int,
        *,
        hours: float = 1,
        say: Callable[[str], None] | None = None,
        emphasis: Emphasis = _AS_DRAWN,
    ) -> None:
        """Draw what kind of world it is."""
        self._say = say
        self.emphasis = emphasis
        self.seed = seed
        self.rng = Random(seed)
        self._ids = Random(f"ids of {seed}")
        self.length = int(hours * HOUR)
        self.loop = Loop()
        self.start: datetime = self.rng.choice(first_hour())
        # Half of the worlds have a clock that jumps; people edit in the others, for
        # what a change means on a clock that was set back is anybody's guess.
        drawn = self.rng.random() < 0.5
        self.clock_jumps = (
            drawn if emphasis.clock_jumps is None else emphasis.clock_jumps
        )
        self.jump = 0
        self.lookback = timedelta(minutes=5)
        self.chunk = self.rng.choice([1, 2, 1000])
        self.slowness = self.rng.choice([12, 25, 40])
        intensity = self.rng.choice([0.2, 1, 1, 2, 4])
        self.faults = Faults(self.rng, intensity, emphasis.races)
        #: Until then no tick may be late.
        self.strained_until = 0
        if emphasis.strain:
            self.length = self.strained_until = 6 * MINUTE
            self.clock_jumps, self.chunk, self.faults.intensity = False, 1, 0
        self.broker = Broker(self.loop, self.rng, self.faults)
        self.database = get_database()
        self.engine = self.database.engine
        self.mail_server = MailServer(self.rng, self._expect_mail, trouble=1.0)
        self.invariants = Invariants(
            self.database,
            self.clock_jumps,
            punctual_until=self.start + timedelta(microseconds=self.strained_until),
        )
        self.theirs = TheirApplication(
            *(self.loop, self.rng, self.faults, self.database_clock),
            *(self._expect_task, self.invariants.tasks),
        )
        self.processes: list[Process] = []
        self.places: dict[str, Process] = {}
        self.judged_until = self.start
        self.people: People | None = None
        self.down_until = 0
        self._digest = hashlib.sha256()
        self._violation: InvariantError | None = None
        self._starters: dict[str, Callable[[Process], None]] = {}
        self.loop.after_each = self._raise_violation
        self.loop.before_giving_way = self._check_no_transaction

    # -- what the real code asks -----------------------------------------------

    def make_id(self) -> UUID:
        """Return what ``uuid4`` returns in this world."""
        return UUID(int=self._ids.getrandbits(128), version=4)

    def database_clock(self) -> datetime:
        """Return the database's time, which jumps."""
        return self.start + timedelta(microseconds=self.loop.now + self.jump)

    def host_clock(self, process: Process) -> datetime:
        """Return the time that the host of *process* believes in."""
        return self.start + timedelta(microseconds=self.loop.now + process.skew)

    def monotonic(self, process: Process) -> float:
        """Return seconds that stand still only while *process* is suspended."""
        return (self.loop.now - process.lost) / SECOND

    def at_database(self, place: Place, statement: str = "") -> None:
        """Give way, fail, freeze or die at a call to the database."""
        task = self.loop.current
        if task is None:
            return  # set-up and the last look are no actor's
        process = task.process
        if place is Place.AFTER_COMMIT:
            self._after_commit(process)
            return
        if not process.alive:
            raise Crash
        if place is Place.BEFORE_TRANSACTION:
            place = self._reach_database(process)
        elif process.kind == "scheduler" and _READS_DUE in statement:
            process.has_read = True
        fault = self.faults.draw(place)
        if fault is None:
            return
        if place is Place.STATEMENT and fault is not Fault.ERROR:
            # A server ends the transaction of a client that says nothing more.
            self.database.raw.rollback()
        self._suffer(process, fault)
        if fault is Fault.RACE and self.people is not None:
            self.people.edit_now()
            self.loop.sleep(SECOND)
        elif fault in {Fault.RACE, Fault.DELAY}:
            self.loop.sleep(self.rng.randrange(8 * SECOND))
        elif place is Place.STATEMENT or fault in {Fault.ERROR, Fault.HANG}:
            raise _unreachable(fault)

    def _reach_database(self, process: Process) -> Place:
        """Get through to the database, and say where in its work *process* is."""
        slow = 15 if self.is_strained() else 1
        self.loop.sleep(slow * self.rng.randrange(200, 20_000))
        down = max(self.down_until, process.cut_off.get("database", 0))
        if self.loop.now < down:
            self.loop.sleep(min(down - self.loop.now, DEADLINE))
            raise _unreachable("the database is down")
        if process.has_read:
            process.has_read = False
            return Place.BEFORE_RECORD
        return Place.BEFORE_TRANSACTION

    def committed(self) -> None:
        """Judge what a commit has changed."""
        entries = self.database.take_log()
        task = self.loop.current
        if not entries or task is None:
            return
        self.trace(task.process.name, entries)
        try:
            self.invariants.judge(task.process, entries)
        except InvariantError as error:
            self._violation = self._violation or error

    def is_strained(self) -> bool:
        """Tell whether a leader has much to do, on a host that sleeps no longer."""
        return self.loop.now < self.strained_until

    def suffer(self, place: Place) -> None:
        """Freeze, die or break at a call that is not the database's."""
        assert self.loop.current is not None  # steps run in tasks
        process = self.loop.current.process
        if not process.alive:
            raise Crash
        fault = self.faults.draw(place)
        if fault is Fault.ERROR:
            raise RuntimeError("simulated: nobody expected this")
        if fault is not None:
            self._suffer(process, fault)

    # -- what happens to processes ---------------------------------------------

    def begin(self, name: str, *, delay: int) -> None:
        """Start a process in the place *name*, *delay* from now."""
        kind = name.partition("-")[0]
        kind = kind if kind in {"scheduler", "reader", "people"} else "worker"
        process = Process(name, kind, self.loop.now)
        process.skew = self.rng.randrange(-4 * SECOND, 4 * SECOND)
        self.processes.append(process)
        self.places[name] = process
        starter = self._starters[name]

        def live() -> None:
            starter(process)

        self.loop.spawn(process, live, delay=delay)

    def end(self, process: Process) -> None:
        """Kill *process*, and start another in its place after a while."""
        if not process.alive:
            return
        self.loop.kill(process)
        self.trace(process.name, "killed")
        self.begin(process.name, delay=self.rng.randrange(SECOND, 90 * SECOND))

    def freeze(self, process: Process, *, suspend: bool = False) -> None:
        """Stop *process* for a while; *suspend* stops its monotonic clock as well."""
        duration = self.rng.choice(FREEZES)
        process.frozen_until = max(process.frozen_until, self.loop.now + duration)
        if suspend:
            process.lost += duration
        self.trace(process.name, f"frozen for {duration}, {suspend}")

    def trace(self, name: str, what: object) -> None:
        """Add to the digest what happened."""
        line = f"{self.loop.now / SECOND:.6f} {name} {what}"
        self._digest.update(line.encode())
        if self._say is not None:
            self._say(line)

    def _after_commit(self, process: Process) -> None:
        # Raised from inside the driver's commit, Crash would close the connection
        # that all share: the process dies at its next call instead.
        try:
            fault = self.faults.draw(Place.AFTER_COMMIT) if process.alive else None
            if fault is Fault.CRASH:
                self.end(process)
            elif fault is not None:
                self._suffer(process, fault)
        except Crash:
            return
        if fault in {Fault.ERROR, Fault.HANG}:
            raise _driver_error(fault)

    def _suffer(self, process: Process, fault: Fault) -> None:
        if fault is Fault.HANG:
            self.loop.sleep(DEADLINE)
        elif fault is Fault.CRASH:
            self.end(process)
            raise Crash
        elif fault in {Fault.FREEZE, Fault.SUSPEND}:
            self.freeze(process, suspend=fault is Fault.SUSPEND)
            self.loop.sleep(1)

    def _expect_mail(self, message_id: str) -> None:
        try:
            taken = self.mail_server.taken[message_id]
            self.invariants.expect_mail(message_id, taken)
        except InvariantError as error:
            self._violation = self._violation or error

    def _expect_task(self, operation_id: UUID, task: ForeignTask) -> None:
        fault = check_task(self.database.raw, operation_id, task)
        if fault is not None:
            self._violation = self._violation or InvariantError(fault)

    def _check_no_transaction(self) -> None:
        """Nobody waits for broker, mail server or time while others wait for him."""
        if self.database.raw.in_transaction:
            error = InvariantError("a transaction was held open across a call")
            self._violation = self._violation or error
            self.database.raw.rollback()

    def _raise_violation(self) -> None:
        if self._violation is not None:
            raise self._violation

    # -- the whole story -------------------------------------------------------

    def run(self) -> Report:
        """
        Live through the hours with faults, then without, until all is final.

        Raises:
            InvariantError: A promise was broken.
        """
        self.database.enter(self)
        try:
            set_up(
                self.engine,
                self.start,
                seconds=self.emphasis.seconds,
                follow=self.emphasis.follow,
                expects=self.emphasis.expects,
            )
            if self.emphasis.strain:
                strain(self.engine, self.start)
            self.database.take_log()
            self._people_the_world()
            if not self.emphasis.strain:
                plan_outages(self)
            self.loop.run(self.length)
            self._calm_down()
            pause_all(self)
            self._wait_until_final()
            if self.emphasis.expects:
                # The end of what was late is told after a while, by an operation.
                self.loop.run(self.loop.now + 8 * MINUTE)
                self._wait_until_final()
            check_ending(self)
        finally:
            self.loop.close(self.processes)
            self.database.leave()
        figures = Counter(
            claims=self.invariants.claims,
            commits=self.invariants.checked,
            operations=len(self.invariants.decided),
            missed=len(self.invariants.missed),
            late=count_late(self),
            ticks=len(self.invariants.ticks),
            mails=self.mail_server.taken.total(),
            messages=self.broker.sent,
            tasks=self.invariants.tasks.sendings,
            answers=sum(map(len, self.invariants.tasks.told.values())),
            processes=len(self.processes),
        )
        return Report(self.seed, self._digest.hexdigest(), self.faults.counts, figures)

    def _people_the_world(self) -> None:
        for name in SCHEDULERS:
            self._starters[name] = partial(run_scheduler, self)
        for name in READERS:
            self._starters[name] = partial(run_reader, self)
        for name, queues, slots in WORKERS:
            self._starters[name] = partial(
                start_worker, self, queues=queues, slots=slots
            )
        self._starters["people-1"] = self._run_people
        for name in self._starters:
            self.begin(name, delay=self.rng.randrange(2 * SECOND))

    def _run_people(self, process: Process) -> None:
        self.people = People(self, process, edits=not self.clock_jumps)
        self.people.run()

    def _calm_down(self) -> None:
        """End every fault; what was frozen goes on when it would have."""
        self.faults.intensity = 0
        self.mail_server.trouble = 0
        self.mail_server.down = False
        self.theirs.trouble = self.theirs.down_until = 0
        self.down_until = 0
        self.broker.restore()
        for process in self.processes:
            process.cut_off.clear()
            self.loop.thaw(process)
        self.end_people()
        self.loop.run(self.loop.now + 4 * MINUTE)

    def end_people(self) -> None:
        """Send the people home, for they would never stop."""
        self.loop.kill(self.places["people-1"])

    def _wait_until_final(self) -> None:
        give_up_at = self.loop.now + PATIENCE
        while count_live(self):
            if self.loop.now > give_up_at:
                raise InvariantError(f"{count_live(self)} operations are never final")
            self.loop.run(self.loop.now + MINUTE)


def _unreachable(why: str) -> sa.exc.OperationalError:
    """Make what SQLAlchemy says, for the real translation to read."""
    return sa.exc.OperationalError("simulated", None, _driver_error(why))


def _driver_error(why: str) -> sqlite3.OperationalError:
    return sqlite3.OperationalError(f"simulated: {why}")
