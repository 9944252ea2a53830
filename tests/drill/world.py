"""
An installation as in production, to hurt: PostgreSQL, Redis, SMTP, two schedulers, and
prefork workers for quick operations and for heavy ones.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psutil
import redis
import sqlalchemy as sa

from actions.user_events import NewEvent, record_events
from celery_app.routing import find_broker_names
from dispatch.manual_runs import run_now
from models.database.engine import make_engine, read_clock, writing
from models.database.tables import leases, operations
from models.decision import NewOperation
from models.errors import ConflictError, UnreachableError
from models.operation_state import LIVE_STATES, Overlap, Queue, Trigger
from operations.record import record
from tests.chaos.installation import SCHEDULER_COMMAND, Installation
from tests.chaos.servers import (
    FAKETIME,
    Clock,
    Victim,
    run_faulty_pgbouncer,
    run_faulty_postgres,
    run_faulty_redis,
)
from tests.chaos.apps import APPS, EVENT, TASK_QUEUE, USERS, add_apps
from tests.chaos.case import Said
from tests.chaos.mails import MoodyMailServer, run_moody_mail_server
from tests.chaos.space import Space, make_space
from tests.programs import find_program
from tests.project import make_project
from tests.scheduling import get_now
from tests.servers import ROOT

#: In settings: long enough for a machine with other things to do, short enough for
#: each to run out within the minutes of a drill.
LEASES = {
    "LEASE_TTL": "PT10S",
    "LEASE_HEARTBEAT": "PT2S",
    "OPERATION_LEASE": "PT15S",
    "OPERATION_HEARTBEAT": "PT3S",
    "DATABASE_TIMEOUT": "PT5S",
    "BROKER_TIMEOUT": "PT2S",
}

#: What operators type, for any Python that has the dependencies.
MINUTEHAND = (sys.executable, "-m", "cli.main")

#: Of the processes, which may do what an operator grants.
ROLE = "operator"

#: The driver waits for the database no longer than this.
PATIENCE = timedelta(seconds=5)

#: Everything is given so long, for others may need the machine as well.
GENEROUS_S = 180.0

#: Between two events; each wakes four actions of an app.
EVENT_EVERY_S = 2.0


@dataclass
class World:
    """
    Everything that runs.

    Args:
        installation: Its engine is the driver's own, of a superuser.

        mails: What arrived.

        database: PostgreSQL.

        clock: Its clock. None: libfaketime is not installed.

        pooler: PgBouncer, by which half of the processes reach the database. None: it
            is not installed.

        broker: Redis.

        schedulers: Two.

        workers: By name, as ``quick-1`` and ``heavy``.

        project: To which ``run_task`` sends.

        space: Where data is kept.

        uids: Of actions, by ``app/name``.

        since: Aware UTC; all actions are in force since then at the latest.
    """

    installation: Installation
    mails: MoodyMailServer
    database: Victim
    clock: Clock | None
    pooler: Victim | None
    broker: Victim
    schedulers: list[Victim]
    workers: dict[str, Victim]
    project: Victim
    space: Space
    uids: dict[str, str]
    since: datetime
    away: set[str] = field(default_factory=set)
    ended: list[str] = field(default_factory=list)
    _pids: dict[str, int] = field(default_factory=dict)

    @property
    def processes(self) -> list[Victim]:
        """Schedulers and workers: all that is ours."""
        return [*self.schedulers, *self.workers.values()]

    @property
    def tasks_done(self) -> Path:
        """Where each task of the project leaves a line, its id first."""
        return self.installation.folder / "shop" / "shop.jsonl"

    @property
    def engine(self) -> sa.Engine:
        """The driver's own."""
        return self.installation.engine

    def look(self) -> None:
        """Note which processes ended though the drill left them alone."""
        if not self.project.is_alive:
            # That project is not ours, and what Celery does to it is not our doing.
            self.project.start()
        for process in self.processes:
            if process.name in self.away:
                continue
            if not process.is_alive:
                self.ended.append(f"{process.name} ended unasked; see {process.log}")
                self.start(process)
            elif process.pid != self._pids[process.name]:
                self.ended.append(f"{process.name} is another process than before")
                self._pids[process.name] = process.pid

    def start(self, process: Victim) -> None:
        """Start what was taken away, or never there."""
        process.start()
        self._pids[process.name] = process.pid
        self.away.discard(process.name)

    def kill(self, process: Victim) -> None:
        """Take it away as ``kill -9`` does."""
        self.away.add(process.name)
        process.kill()

    def replace(self, process: Victim, number: signal.Signals) -> None:
        """Ask it to stop, and start another in its place when it has."""
        self.away.add(process.name)
        process.ask(number)
        self.wait(lambda: not process.is_alive, what=f"the end of {process.name}")
        self.start(process)

    def wait(
        self,
        predicate: Callable[[], object],
        *,
        what: str,
        timeout_s: float = GENEROUS_S,
        every_s: float = 0.2,
    ) -> None:
        """Wait until *predicate* holds, while watching the processes."""
        give_up_at = time.monotonic() + timeout_s
        while not predicate():
            self.look()
            if time.monotonic() > give_up_at:
                msg = f"waited {timeout_s:.0f} s for {what}"
                raise AssertionError(msg)
            time.sleep(every_s)

    def pause(self, seconds: float) -> None:
        """Let time pass, while watching the processes."""
        end_at = time.monotonic() + seconds
        while time.monotonic() < end_at:
            self.look()
            time.sleep(0.2)

    def ask_doctor(self) -> Said:
        """Run ``minutehand doctor``, as an operator does."""
        self.look()
        started_s = time.monotonic()
        done = subprocess.run(
            [*MINUTEHAND, "doctor", "--json"],
            env={**os.environ, **self.installation.environ},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=GENEROUS_S,
            check=False,
        )
        took_s = time.monotonic() - started_s
        lines = [f"bad {line}" for line in done.stderr.splitlines() if line.strip()]
        if done.stdout.strip():
            lines += [
                f"{each['health']} {each['subject']}: {each['detail']}"
                for each in json.loads(done.stdout)
            ]
        return Said(tuple(lines), done.returncode, took_s)

    def find_leader(self) -> tuple[Victim, int] | None:
        """Return who leads, and with which fence; None: nobody at this moment."""
        with self.engine.connect() as connection:
            row = connection.execute(
                sa.select(leases.c.pid, leases.c.fence).where(
                    leases.c.expires_at > sa.func.statement_timestamp()
                )
            ).first()
        if row is None:
            return None
        found = [each for each in self.schedulers if each.pid == row.pid]
        return (found[0], row.fence) if found else None

    def wait_for_leader(self, *, beyond: int = 0) -> tuple[Victim, int]:
        """Wait until somebody leads with a fence above *beyond*."""
        found: list[tuple[Victim, int]] = []

        def leads() -> bool:
            with suppress(sa.exc.OperationalError):
                leader = self.find_leader()
                found[:] = [leader] if leader is not None else []
            return bool(found) and found[0][1] > beyond

        self.wait(leads, what="a leader", every_s=0.1)
        return found[0]

    def wait_for_workers(self) -> None:
        """Wait until every worker takes what there is."""
        for name in self.workers:
            self.wait(
                lambda name=name: " ready." in self.installation.read_log(name),  # type: ignore[misc]
                what=f"worker {name}",
            )

    def ask_for(self, name: str, count: int) -> list[UUID]:
        """Record *count* runs by hand of the action *name* in each app."""
        with writing(self.engine) as connection:
            now = read_clock(connection).replace(microsecond=0)
            new = [
                NewOperation(
                    id=uuid4(),
                    action_uid=self.uids[f"{app}/{name}"],
                    action_revision=1,
                    app=app,
                    trigger=Trigger.MANUAL,
                    triggered_by="the drill",
                    occurrence=now,
                    queue=Queue.QUICK,
                    overlap=Overlap.ALLOW,
                )
                for _ in range(count)
                for app in APPS
            ]
            record(connection, new)
        return [each.id for each in new]

    def run(self, name: str, *, app: str, force: bool = False) -> list[UUID]:
        """Run an action as somebody does by hand; none if it is under way already."""
        try:
            return [run_now(self.engine, self.uids[f"{app}/{name}"], force=force)]
        except ConflictError:
            return []

    def count_live(self, ids: Sequence[UUID]) -> int:
        """Return how many of the operations *ids* have no end yet."""
        with self.engine.connect() as connection:
            live = sa.select(sa.func.count()).where(
                operations.c.id.in_(ids), operations.c.state.in_(list(LIVE_STATES))
            )
            return connection.execute(live).scalar_one()

    def find_lateness(self, since: datetime) -> timedelta:
        """Return how late the latest tick since *since* wrote its first decision."""
        kept = operations.c
        late = (
            sa.select((sa.func.min(kept.recorded_at) - kept.occurrence).label("late"))
            .where(
                kept.occurrence >= since,
                sa.func.date_trunc("minute", kept.occurrence) == kept.occurrence,
                kept.trigger == Trigger.SCHEDULE,
            )
            .group_by(kept.occurrence)
            .subquery()
        )
        with self.engine.connect() as connection:
            found = connection.execute(sa.select(sa.func.max(late.c.late))).scalar()
        return found or timedelta(0)

    def count_waiting(self) -> int:
        """Return how many messages of quick operations are at the broker."""
        prefix = self.installation.settings.queue_prefix
        names = find_broker_names(Queue.QUICK, prefix)
        with redis.Redis.from_url(self.broker.url) as client:
            counts = [client.llen(name) for name in names]
        return sum(count for count in counts if isinstance(count, int))


class Load(threading.Thread):
    """Users, to whom something happens all the time."""

    def __init__(self, world: World, rng: random.Random) -> None:
        """Begin with ``start``."""
        super().__init__(name="load")
        self._world = world
        self._rng = rng
        self._stopped = threading.Event()
        self.sent = 0

    def run(self) -> None:
        """Record an event now and then."""
        while not self._stopped.wait(EVENT_EVERY_S):
            app, user = self._rng.choice(APPS), self._rng.choice(USERS)
            event = NewEvent(app=app, name=EVENT, user_id=user, key=str(uuid4()))
            # What is not recorded did not happen.
            with (
                suppress(UnreachableError),
                writing(self._world.engine) as connection,
            ):
                self.sent += record_events(connection, [event])

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        self.join()


@contextmanager
def run_world(folder: Path, rng: random.Random) -> Iterator[World]:
    """Run it for the length of the block, with *folder* for data and logs."""
    with ExitStack() as stack:
        clock = _make_clock(folder)
        database = stack.enter_context(run_faulty_postgres(clock))
        broker = stack.enter_context(run_faulty_redis(persistent=True))
        mails = stack.enter_context(run_moody_mail_server())
        space = stack.enter_context(make_space(folder / "workspace"))
        options = {**LEASES, "SMTP_URL": mails.url, "WORKSPACE": str(space.folder)}
        installation = Installation(database.url, broker.url, folder, options)
        engine = installation.engine
        since = get_now(engine)
        uids = add_apps(engine, folder, rng)
        installation.database_url = _make_role(engine, database.url)
        engine.dispose()
        installation.engine = make_engine(database.url, timeout=PATIENCE)
        stack.callback(installation.engine.dispose)
        pooler = None
        if find_program("pgbouncer") is not None:
            url = installation.database_url
            pooler = stack.enter_context(run_faulty_pgbouncer(url))
        schedulers = [
            _make_process(installation, f"scheduler-{number}", SCHEDULER_COMMAND)
            for number in (1, 2)
        ]
        workers = {
            name: _make_process(
                installation, name, space.wrap(_make_worker_command(name, *options))
            )
            for name, *options in (
                ("quick-1", "quick", "2"),
                ("quick-2", "quick", "2"),
                ("heavy", "heavy,celery", "2"),
            )
        }
        project = make_neighbour(folder, broker.url, "shop", TASK_QUEUE)
        world = World(
            *(installation, mails, database, clock, pooler, broker),
            *(schedulers, workers, project),
            *(space, uids, since),
        )
        project.start()
        stack.callback(project.stop)
        for number, process in enumerate(world.processes):
            if number % 2 and pooler is not None:
                process.environ = {
                    **process.environ,
                    "MINUTEHAND_DATABASE_URL": pooler.url,
                }
            stack.callback(process.stop)
            world.start(process)
        yield world


def _make_clock(folder: Path) -> Clock | None:
    """Return a clock that is right; None where libfaketime is not installed."""
    if not Path(FAKETIME).exists():
        return None
    folder.chmod(0o755)  # PostgreSQL is another user
    clock = Clock(folder / "clock")
    clock.set(timedelta(0))
    return clock


def _make_worker_command(name: str, queues: str, concurrency: str) -> Sequence[str]:
    return [
        *(*MINUTEHAND, "worker", "--queues", queues),
        *("--concurrency", concurrency, "--name", f"{name}@%h"),
    ]


def make_neighbour(folder: Path, broker_url: str, name: str, *queues: str) -> Victim:
    """Return a worker of somebody else's project; none: on Celery's own queue."""
    place = folder / name
    place.mkdir()
    project = make_project(place, broker_url, *queues, name=name)
    log = folder / f"{name}.log"
    return Victim(name, project.command, log, environ=project.environ, cwd=place)


def _make_process(
    installation: Installation, name: str, command: Sequence[str]
) -> Victim:
    return Victim(
        name,
        command,
        installation.folder / f"{name}.log",
        environ=installation.environ,
        cwd=ROOT,
    )


def _make_role(engine: sa.Engine, url: str) -> str:
    """Make a role that may do what the documentation says, and return its URL."""
    with engine.begin() as connection:
        for statement in (
            f"CREATE ROLE {ROLE} LOGIN",
            f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {ROLE}",
        ):
            connection.execute(sa.text(statement))
    return url.replace("minutehand@", f"{ROLE}@")


def find_tree(process: Victim) -> list[psutil.Process]:
    """Return *process* and its children, those that are still there."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    return []
