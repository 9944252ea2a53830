"""
An installation as in production, to hurt: PostgreSQL, half of it by PgBouncer, Redis,
SMTP, two schedulers, workers, pages; and a Celery project with a broker of its own.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import redis
import sqlalchemy as sa

from celery_app.routing import find_broker_names
from dispatch.manual_runs import run_now
from models.database.engine import db_now, make_engine
from models.database.tables import NOT_AWAITING, PENDING, leases, operations
from models.errors import ConflictError, UnreachableError
from models.occurrence import make_manual_id
from models.operation_state import LIVE_STATES, OperationState, Queue, Trigger
from models.requests.actions import RunModel
from tests.chaos.apps import PROJECT, TASK, add_apps, backdate_actions
from tests.chaos.case import Said
from tests.chaos.installation import SCHEDULER_COMMAND, Installation
from tests.chaos.ledger import Happening, open_journal
from tests.chaos.mails import MoodyMailServer, run_moody_mail_server
from tests.chaos.servers import (
    Clock,
    Victim,
    make_clock,
    run_faulty_pgbouncer,
    run_faulty_postgres,
    run_faulty_redis,
)
from tests.chaos.space import Space, make_space
from tests.database import execute, fetch_rows
from tests.programs import find_program
from tests.project import make_project
from tests.scheduling import get_now, make_operation, record_all
from tests.servers import ROOT, find_free_port, wait_until

#: In settings: long enough for a machine with other things to do, short enough for each
#: to run out while something is frozen.
LEASES = {
    "LEASE_TTL": "PT6S",
    "LEASE_HEARTBEAT": "PT1S",
    "OPERATION_LEASE": "PT8S",
    "OPERATION_HEARTBEAT": "PT2S",
    "DATABASE_TIMEOUT": "PT3S",
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

#: A message that nobody took for so long is lost.
LOST = timedelta(minutes=2)

#: Of the project: what a worker of it had that was killed is another's soon.
_SETTINGS_OF_PROJECT = {
    "task_acks_late": True,
    "broker_transport_options": {"visibility_timeout": 20},
}


@dataclass
class World:
    """
    Everything that runs.

    Args:
        installation: Its engine is the driver's own, of a superuser.
        rng: Of all choices.
        clock: That of PostgreSQL. None: libfaketime is not installed.
        pooler: By which half of the processes reach it. None: it is not installed.
        their_broker: Of the project to which ``run_task`` sends.
        project: The worker of that project.
        uids: Of actions, by app and name.
        since: Aware UTC; all actions are in force since then at the latest.
        happenings: All that was done to any of them.
        ended: What ended although nobody asked or killed it, a sentence each.
        asked: Operations that a fault waits for; these nobody cancels.
    """

    installation: Installation
    rng: random.Random
    mails: MoodyMailServer
    database: Victim
    clock: Clock | None
    pooler: Victim | None
    broker: Victim
    their_broker: Victim
    schedulers: list[Victim]
    workers: dict[str, Victim]
    web: Victim
    project: Victim
    space: Space
    uids: dict[str, dict[str, str]]
    since: datetime
    happenings: list[Happening] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    asked: set[UUID] = field(default_factory=set)
    _hurt: dict[str, Happening] = field(default_factory=dict)
    _pids: dict[str, int] = field(default_factory=dict)

    @property
    def processes(self) -> list[Victim]:
        """All that is ours."""
        return [*self.schedulers, *self.workers.values(), self.web]

    @property
    def servers(self) -> list[Victim]:
        """What is not ours; each does without an orderly end."""
        found = (self.database, self.pooler, self.broker, self.their_broker)
        return [*(each for each in found if each is not None), self.project]

    @property
    def whole(self) -> list[Victim]:
        """All that nothing is being done to."""
        all_ = [*self.servers, *self.processes]
        return [each for each in all_ if each.name not in self._hurt]

    @property
    def tasks_done(self) -> Path:
        """Where each task of the project leaves a line."""
        return self.installation.folder / PROJECT / "shop.jsonl"

    @property
    def engine(self) -> sa.Engine:
        """The driver's own."""
        return self.installation.engine

    # -- what is done to it --------------------------------------------------------

    def note(self, what: str, who: str) -> Happening:
        """Note that *what* begins to happen to *who*."""
        self.happenings.append(Happening(what, who, datetime.now(UTC)))
        return self.happenings[-1]

    def kill(self, victim: Victim) -> None:
        """Take it away as ``kill -9`` does."""
        self._hurt[victim.name] = self.note("kill", victim.name)
        victim.kill()

    def freeze(self, victim: Victim) -> None:
        """Stop it in its tracks."""
        self._hurt[victim.name] = self.note("freeze", victim.name)
        victim.freeze()

    def ask(self, victim: Victim, number: signal.Signals) -> None:
        """Ask it to stop."""
        self._hurt[victim.name] = self.note("stop", victim.name)
        victim.ask(number)

    def start(self, victim: Victim) -> None:
        """Let it be whole again, frozen or gone, or there for the first time."""
        victim.thaw()
        victim.start()
        self._pids[victim.name] = victim.pid
        if victim.name in self._hurt:
            self._hurt.pop(victim.name).ended_at = datetime.now(UTC)

    def replace(self, victim: Victim, number: signal.Signals) -> None:
        """Ask it to stop, and start another in its place when it has."""
        self.ask(victim, number)
        self.wait(lambda: not victim.is_alive, what=f"the end of {victim.name}")
        self.start(victim)

    # -- what it does --------------------------------------------------------------

    def look(self) -> None:
        """Note which processes ended though they were left alone."""
        for process in self.processes:
            if process.name in self._hurt:
                continue
            if not process.is_alive:
                self.ended.append(f"{process.name} ended unasked; see {process.log}")
                self.start(process)
            elif process.pid != self._pids[process.name]:
                self.ended.append(f"{process.name} is another process than before")
                self._pids[process.name] = process.pid
        if self.project.name not in self._hurt and not self.project.is_alive:
            # That project is not ours, and what Celery does to it is not our doing.
            self.note("end", self.project.name).ended_at = datetime.now(UTC)
            self.project.start()

    def wait(
        self,
        predicate: Callable[[], object],
        *,
        what: str,
        timeout_s: float = GENEROUS_S,
        every_s: float = 0.2,
    ) -> None:
        """Wait until *predicate* holds, while watching the processes."""

        def holds() -> bool:
            # A server that is away, or cuts its clients off, may be well in a moment.
            with suppress(sa.exc.DBAPIError, UnreachableError, redis.RedisError):
                if predicate():
                    return True
            self.look()
            return False

        wait_until(holds, timeout_s=timeout_s, every_s=every_s, what=what)

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
        lines = [f"bad {line}" for line in done.stderr.splitlines() if line.strip()]
        if done.stdout.strip():
            lines += [
                f"{each['health']} {each['subject']}: {each['detail']}"
                for each in json.loads(done.stdout)
            ]
        return Said(tuple(lines), time.monotonic() - started_s)

    def wait_for_leader(self, *, beyond: int = 0) -> tuple[Victim, int]:
        """Wait until somebody leads with a fence above *beyond*; return both."""
        found: list[tuple[Victim, int]] = []
        holds = leases.c.expires_at > db_now()
        query = sa.select(leases.c.pid, leases.c.fence).where(holds)

        def leads() -> bool:
            row = fetch_rows(self.engine, query).first()
            if row is not None and row.fence > beyond:
                found[:] = [
                    (each, row.fence) for each in self.schedulers if each.pid == row.pid
                ]
            return bool(found)

        self.wait(leads, what="a leader", every_s=0.1)
        return found[0]

    def wait_for_workers(self) -> None:
        """Wait until every worker takes what there is."""

        def are_ready() -> bool:
            logs = map(self.installation.read_log, self.workers)
            return all(" ready." in log for log in logs)

        self.wait(are_ready, what="workers")

    # -- what it is asked for ------------------------------------------------------

    def ask_for(self, name: str, count: int) -> list[UUID]:
        """Record *count* runs by hand of the action *name* in each app."""
        ids = {uuid4(): app for app in self.uids for _ in range(count)}
        self.asked.update(ids)
        now = get_now(self.engine).replace(microsecond=0)
        queue = Queue.TASKS if name == TASK else Queue.QUICK
        of: dict[str, Any] = {"trigger": Trigger.MANUAL, "occurrence": now}
        new = (
            make_operation(
                id=id_, action_uid=self.uids[app][name], app=app, queue=queue, **of
            )
            for id_, app in ids.items()
        )
        return record_all(self.engine, *new)

    def run(self, name: str, *, app: str) -> list[UUID]:
        """Run an action as somebody does by hand; none if it is under way already."""
        uid, key = self.uids[app][name], str(uuid4())
        self.asked.add(make_manual_id(uid, key))
        try:
            return [run_now(self.engine, uid, RunModel(force=True), key=key)]
        except ConflictError:
            return []

    def count_live(self, ids: Sequence[UUID]) -> int:
        """Return how many of the operations *ids* have no end yet."""
        live = operations.c.state.in_(list(LIVE_STATES))
        count = sa.select(sa.func.count()).where(operations.c.id.in_(ids), live)
        return fetch_rows(self.engine, count).scalar_one()

    def count_waiting(self) -> int:
        """Return how many messages of quick operations are at the broker."""
        prefix = self.installation.settings.queue_prefix
        names = find_broker_names(Queue.QUICK, prefix)
        with redis.Redis.from_url(self.broker.url, decode_responses=True) as client:
            return sum(int(str(client.llen(name))) for name in names)

    def hurry(self) -> None:
        """Let retries be due, what Redis forgot have been sent long ago, and so on."""
        with redis.Redis.from_url(self.their_broker.url) as client:
            # their tasks, those with their worker, and answers
            keys = [key for key in client.scan_iter() if b"pidbox" not in key]
            is_idle = not any(client.type(key) in {b"list", b"hash"} for key in keys)
        due = [PENDING.of(), operations.c.send_at > db_now()]
        updates = [
            sa.update(operations)
            .where(*due, *([] if is_idle else [NOT_AWAITING.of()]))
            .values(send_at=db_now())
        ]
        if not self.count_waiting():
            lost = operations.c.sent_at.between(db_now(-LOST), db_now(-LOST / 24))
            updates.append(
                sa.update(operations)
                .where(operations.c.state == OperationState.QUEUED, lost)
                .values(sent_at=db_now(-LOST))
            )
        for update in updates:
            execute(self.engine, update)


@contextmanager
def run_world(folder: Path, rng: random.Random, *, apps: int) -> Iterator[World]:
    """Run it for the length of the block, with *folder* for data and logs."""
    with ExitStack() as stack:
        clock = make_clock(folder)
        database = stack.enter_context(run_faulty_postgres(clock))
        broker = stack.enter_context(run_faulty_redis(persistent=True))
        theirs = stack.enter_context(run_faulty_redis(persistent=True))
        theirs.name = "their Redis"
        mails = stack.enter_context(run_moody_mail_server())
        space = stack.enter_context(make_space(folder / "workspace"))
        options = {
            **LEASES,
            "SMTP_URL": mails.url,
            "WORKSPACE": str(space.folder),
            "TASK_CONNECTIONS": f"{PROJECT}={theirs.url}",
            "WEB_ADDRESS": f"127.0.0.1:{find_free_port()}",
        }
        installation = Installation(database.url, broker.url, folder, options)
        engine = installation.engine
        uids = add_apps(engine, folder, rng, apps)
        since = backdate_actions(engine)
        open_journal(engine)
        installation.database_url = _make_role(engine, database.url)
        engine.dispose()
        installation.engine = make_engine(database.url, timeout=PATIENCE)
        stack.callback(installation.engine.dispose)
        pooler = None
        if find_program("pgbouncer") is not None:
            url = installation.database_url
            pool = run_faulty_pgbouncer(url, "default_pool_size = 10")
            pooler = stack.enter_context(pool)
        urls = [installation.database_url, *([pooler.url] if pooler else [])]
        made = _make_processes(installation, space, urls)
        world = World(
            *(installation, rng, mails, database, clock, pooler, broker, theirs),
            schedulers=[v for v in made if v.name.startswith("scheduler")],
            workers={v.name: v for v in made if v.name.startswith(("quick", "heavy"))},
            web=made[-1],
            project=_make_project(folder, theirs.url),
            space=space,
            uids=uids,
            since=since,
        )
        for each in (world.project, *world.processes):
            stack.callback(each.stop)
            world.start(each)
        yield world


def _make_processes(
    installation: Installation, space: Space, urls: Sequence[str]
) -> list[Victim]:
    """Return schedulers, workers and pages, which reach the database by *urls*."""
    commands: dict[str, Sequence[str]] = {
        "scheduler-1": SCHEDULER_COMMAND,
        "scheduler-2": SCHEDULER_COMMAND,
    }
    for name, queues in (
        ("quick-1", "quick"),
        ("quick-2", "quick"),
        ("heavy", "heavy,celery"),
    ):
        worker = (*MINUTEHAND, "worker", "--queues", queues, "--concurrency", "2")
        commands[name] = space.wrap([*worker, "--name", f"{name}@%h"])
    commands["web"] = (*MINUTEHAND, "web")
    return [
        Victim(
            name,
            command,
            installation.folder / f"{name}.log",
            environ={**installation.environ, "MINUTEHAND_DATABASE_URL": url},
            cwd=ROOT,
            is_warm=command is SCHEDULER_COMMAND or name == "web",
        )
        for (name, command), url in zip(commands.items(), cycle(urls), strict=False)
    ]


def _make_project(folder: Path, broker_url: str) -> Victim:
    """Return a worker of somebody else's project."""
    place = folder / PROJECT
    place.mkdir()
    made = make_project(place, broker_url, PROJECT, settings=_SETTINGS_OF_PROJECT)
    log = folder / f"{PROJECT}.log"
    return Victim(
        "their worker", made.command, log, environ=made.environ, cwd=place, is_warm=True
    )


def _make_role(engine: sa.Engine, url: str) -> str:
    """Make a role that may do what the documentation says, and return its URL."""
    for statement in (
        f"CREATE ROLE {ROLE} LOGIN",
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {ROLE}",
    ):
        execute(engine, sa.text(statement))
    return url.replace("minutehand@", f"{ROLE}@")
