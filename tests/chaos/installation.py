"""
An installation to hurt: database, broker, schedulers and workers as processes.

Nothing runs out here by itself, however long a busy machine keeps a process; what a
test waits for the end of, it makes `SHORT`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from dispatch.manual_runs import run_now
from migrations.schema import migrate
from models.database.engine import db_now, make_engine
from models.database.tables import PENDING, operations, scheduled_actions, small_apps
from models.operation_state import FINAL_STATES, Queue
from operations.sending.order import Message
from settings import Settings, read_settings
from tests.chaos.steps import EFFECTS
from tests.database import execute, fetch_rows
from tests.scheduling import SELDOM, add_app, edit_action, fetch_action, get, post
from tests.servers import PATIENCE_S, run_warm, wait_until

#: In settings: signs of life each second, and nothing that runs out meanwhile.
PATIENT = {
    "LEASE_TTL": "PT1H",
    "LEASE_HEARTBEAT": "PT1S",
    "OPERATION_LEASE": "PT1H",
    "OPERATION_HEARTBEAT": "PT1S",
    "DATABASE_TIMEOUT": "PT30S",
    "BROKER_TIMEOUT": "PT30S",
}

#: Over them, for what is frozen, or asks what is: what production has, but for seconds
#: instead of minutes.
SHORT = {
    "LEASE_TTL": "PT4S",
    "OPERATION_LEASE": "PT4S",
    "DATABASE_TIMEOUT": "PT2S",
    "BROKER_TIMEOUT": "PT1S",
}

SCHEDULER_COMMAND = (sys.executable, "scheduler_server.py")


def make_worker_command(name: str, concurrency: int) -> list[str]:
    """Return what ``minutehand worker`` executes, but for an app with other steps."""
    return [
        *(sys.executable, "-m", "celery", "--app", "tests.chaos.steps", "--quiet"),
        *("worker", "--queues", "quick,heavy,celery", "--loglevel", "INFO"),
        *("--concurrency", str(concurrency), "--hostname", f"{name}@tests"),
        *("--prefetch-multiplier", "1"),
    ]


@dataclass
class Installation:
    """
    Where it is, and how to run parts of it.

    Args:
        database_url: Migrated.
        broker_url: Redis or RabbitMQ.
        folder: For logs, data and mails.
        options: Settings without their prefix, over PATIENT, of what starts next.
    """

    database_url: str
    broker_url: str
    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    engine: sa.Engine = field(init=False)

    def __post_init__(self) -> None:
        """Migrate the database."""
        self.engine = make_engine(self.database_url)
        migrate(self.engine)

    @property
    def settings(self) -> Settings:
        """What the processes read."""
        return read_settings(self.environ, env_file=None)

    @property
    def environ(self) -> dict[str, str]:
        """Variables of every process."""
        values = {
            "HOME": str(self.folder),
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker_url,
            "SMTP_URL": str(self.folder / "mails"),
            "LOG_FORMAT": "json",
            **PATIENT,
            **self.options,
        }
        named = {f"MINUTEHAND_{name}": value for name, value in values.items()}
        return {**named, EFFECTS: str(self.folder / "effects")}

    @contextmanager
    def scheduler(self, name: str = "scheduler") -> Iterator[subprocess.Popen[bytes]]:
        """Run a scheduler, whose log is *name*."""
        with run_warm(
            SCHEDULER_COMMAND, log=self.folder / f"{name}.log", environ=self.environ
        ) as process:
            yield process

    @contextmanager
    def worker(
        self, name: str = "worker", concurrency: int = 2
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a prefork worker as ``minutehand worker`` does, with steps of tests."""
        with run_warm(
            make_worker_command(name, concurrency),
            log=self.folder / f"{name}.log",
            environ=self.environ,
            # One that is killed keeps messages that a test wants to see again.
            stop_timeout_s=60,
        ) as process:
            yield process

    def send(self, *ids: UUID) -> None:
        """Send a message for each of *ids*, as a scheduler does that has time."""
        app = make_app(self.settings)
        sender = CelerySender(app, timeout=timedelta(seconds=30))
        sender.send([Message(each, Queue.QUICK, "a test", 0) for each in ids])
        sender.close()

    def read_log(self, name: str) -> str:
        """Return what *name* has logged."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for_log(self, name: str, words: str, count: int = 1) -> None:
        """Wait until *name* has logged *words* for the *count*-th time."""
        wait_until(
            lambda: self.read_log(name).count(words) >= count,
            what=f"{words} in the log of {name}",
        )

    def add(self, name: str = "sleep", *args: Any, **changes: Any) -> str:
        """Add an action that runs a behaviour of tests/chaos/steps.py by hand only."""
        if fetch_rows(self.engine, sa.select(small_apps)).first() is None:
            add_app(self.engine)
        document = {
            "name": f"{name} {len(self.fetch_uids())}",
            "operations": {"run_task": {"name": name, "args": list(args)}},
            "when": SELDOM,
            **changes,
        }
        uid = post(self.engine, **document).uid
        if fetch_action(self.engine, uid).queue == Queue.TASKS:
            # The leader would send it itself, past the workers that behave.
            edit_action(self.engine, uid, queue=Queue.QUICK)
        return uid

    def fetch_uids(self) -> list[str]:
        """Return the uids of all actions."""
        return [*fetch_rows(self.engine, sa.select(scheduled_actions.c.uid)).scalars()]

    def run(self, name: str = "sleep", *args: Any, **changes: Any) -> UUID:
        """Record a run of a new action; return the operation's id."""
        return run_now(self.engine, self.add(name, *args, **changes))

    def wait_for_state(
        self, operation_id: UUID, *states: str, timeout_s: float = PATIENCE_S
    ) -> sa.Row[Any]:
        """Wait until the operation is in one of *states*; return its row."""
        row: list[sa.Row[Any]] = []

        def is_there() -> bool:
            row[:] = [get(self.engine, operation_id)]
            return row[0].state in states

        try:
            wait_until(is_there, timeout_s=timeout_s, every_s=0.05, what=str(states))
        except AssertionError:
            raise AssertionError(f"{states} not reached: {row[0]}") from None
        return row[0]

    def wait_until_final(self, operation_id: UUID, **options: Any) -> sa.Row[Any]:
        """Wait until the operation is final; return its row."""
        return self.wait_for_state(operation_id, *FINAL_STATES, **options)

    def hurry(self) -> None:
        """Let what waits for its next attempt be tried at once."""
        waits = sa.update(operations).where(
            PENDING.of(), operations.c.send_at > db_now()
        )
        execute(self.engine, waits.values(send_at=db_now()))

    def read_effects(self, *, done: bool = False) -> Counter[str]:
        """Return how often a step of each began, or (*done*) came through, by id."""
        path = self.folder / "effects"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(
            line.partition(" ")[0] for line in lines if line.endswith("done") == done
        )

    def count_effects(self, operation_id: UUID, *, done: bool = False) -> int:
        """Return how often a step of the operation began, or (*done*) came through."""
        return self.read_effects(done=done)[str(operation_id)]

    def wait_for_effects(self, operation_id: UUID, count: int = 1) -> None:
        """Wait until a step of the operation has begun *count* times."""
        wait_until(
            lambda: self.count_effects(operation_id) >= count,
            what=f"attempt {count} of {operation_id}",
        )

    def count_live(self) -> int:
        """Return how many operations are not final."""
        live = operations.c.state.not_in(list(FINAL_STATES))
        count = sa.select(sa.func.count()).where(live)
        return fetch_rows(self.engine, count).scalar_one()


def freeze(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its children in their tracks."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGSTOP)


def thaw(process: subprocess.Popen[bytes]) -> None:
    """Let them go on."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGCONT)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children without a chance to say goodbye."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)
