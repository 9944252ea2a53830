"""Workers as processes: their rows, each line that they say, and their rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from models.database.engine import make_engine, writing
from models.operation_state import Queue
from operations.fleet.processes import (
    ProcessRole,
    Seen,
    drain_worker,
    fetch_processes,
    find_worker,
    resume_worker,
)
from operations.sending.order import Message
from tests.database import read_by, write_by
from tests.scheduling import make_settings
from tests.servers import PATIENCE_S, ROOT, run_process, run_warm, wait_until

OURS = (sys.executable, "-m", "cli.main", "worker", "-c", "1", "-Q", "quick,celery")
THEIRS = (sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", "1")
EMBEDDED = (sys.executable, "-m", "cli.main", "up")
SCHEDULER = (sys.executable, "scheduler_server.py")
#: A worker that gives a sign of life each second: the test waits for some of them.
PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from datetime import timedelta
import operations.fleet.processes
operations.fleet.processes.RENEW_EVERY = timedelta(seconds=1)
from celery.__main__ import main
sys.argv[:1] = "celery -A celery_app worker -c 1 -n one@host".split()
sys.exit(main())
"""
MESSAGE = Message(UUID(int=7), Queue.QUICK, "a test", attempt=0)


@pytest.fixture
def shared(postgres_url: str) -> Iterator[sa.Engine]:
    """Give an engine on the database of the processes."""
    engine = make_engine(postgres_url)
    yield engine
    engine.dispose()


def make_environ(folder: Path, database_url: str, broker_url: str) -> dict[str, str]:
    given = {
        "HOME": str(folder),
        "DATABASE_URL": database_url,
        "BROKER_URL": broker_url,
        "LOG_FORMAT": "json",
    }
    return {f"MINUTEHAND_{name}": value for name, value in given.items()}


def fetch(engine: sa.Engine) -> list[Seen]:
    return read_by(engine, fetch_processes)


def _fetch_but(engine: sa.Engine, former: Seen) -> list[Seen]:
    return [each for each in fetch(engine) if each.started_at != former.started_at]


def end(worker: subprocess.Popen[bytes], log: Path) -> None:
    """End it warmly, and assert that each line it has logged is JSON."""
    worker.send_signal(signal.SIGTERM)
    assert 0 == worker.wait(PATIENCE_S)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert any("ready" in line["event"] for line in lines)
    assert any("Warm shutdown" in line["event"] for line in lines)


def test_worker_has_a_row_for_as_long_as_it_runs(
    shared: sa.Engine, postgres_url: str, redis_url: str, tmp_path: Path
):
    """It says where it runs and what it takes, also after SIGHUP: it starts again."""
    log, environ = tmp_path / "log", make_environ(tmp_path, postgres_url, redis_url)
    with run_process(OURS, log=log, environ=environ) as worker:
        (first,) = wait_until(lambda: fetch(shared), what="a row")
        worker.send_signal(signal.SIGHUP)
        (seen,) = wait_until(lambda: _fetch_but(shared, first), what="another row")
        end(worker, log)

    assert [] == fetch(shared)
    assert (ProcessRole.WORKER, 1, True) == (
        seen.process.role,
        seen.process.concurrency,
        seen.is_alive,
    )
    assert {"quick", "celery"} == set(seen.process.queues)
    assert seen.process.free_bytes


@pytest.mark.parametrize("command", [THEIRS, SCHEDULER], ids=["celery", "scheduler"])
def test_whatever_a_program_makes_is_for_its_user_alone(
    command: tuple[str, ...], redis_url: str, tmp_path: Path
):
    """Whatever the umask: a folder, a database, which is empty, and a workspace."""
    home = tmp_path / "home"
    asked = {"HOME": str(home), "BROKER_URL": redis_url}
    environ = {f"MINUTEHAND_{name}": value for name, value in asked.items()}

    done = subprocess.run(
        command,
        env={**os.environ, **environ},
        cwd=ROOT,
        umask=0,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert b"minutehand migrate" in done.stderr
    made = [home, *home.rglob("*")]
    assert len(made) > 1
    assert [] == [path for path in made if path.stat().st_mode & 0o077]


def test_embedded_worker_has_a_row_beside_its_scheduler(
    shared: sa.Engine, postgres_url: str, tmp_path: Path
):
    """A small installation with one process for all is no queue without a worker."""
    environ = make_environ(tmp_path, postgres_url, "memory://")
    with run_warm(EMBEDDED, log=tmp_path / "log", environ=environ) as process:
        wait_until(lambda: len(fetch(shared)) == 2, what="two rows")
        seen = {each.process.role: each for each in fetch(shared)}
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(PATIENCE_S)

    assert {"quick", "heavy", "celery"} == set(seen[ProcessRole.WORKER].process.queues)
    assert process.pid == seen[ProcessRole.SCHEDULER].process.pid
    assert [] == fetch(shared)


@contextmanager
def sending(broker_url: str) -> Iterator[CelerySender]:
    settings = make_settings(BROKER_URL=broker_url)
    sender = CelerySender(make_app(settings), timeout=timedelta(seconds=30))
    yield sender
    sender.close()


def wait_for_queues(engine: sa.Engine, *names: str) -> Seen:
    """Wait until the worker takes from these queues alone."""

    def look() -> Seen | None:
        seen = next(iter(fetch(engine)), None)
        return seen if seen and set(names) == set(seen.process.queues) else None

    found = wait_until(look, what=f"a worker of {names}")
    assert found is not None  # it would have waited
    return found


@pytest.mark.parametrize("more", [[], ["-P", "threads"]], ids=["prefork", "threads"])
def test_drained_worker_takes_nothing_until_it_is_resumed(
    more: list[str],
    shared: sa.Engine,
    postgres_url: str,
    redis_url: str,
    tmp_path: Path,
):
    """
    From all lanes of its queues; afterwards it takes what waited meanwhile. Of Celery's
    own command, it has a row, too, for as long as it runs.
    """
    log, program = tmp_path / "log", tmp_path / "program.py"
    program.write_text(PROGRAM)
    environ = make_environ(tmp_path, postgres_url, redis_url)
    with (
        sending(redis_url) as sender,
        run_warm(
            [sys.executable, str(program), *more], log=log, environ=environ
        ) as worker,
    ):
        wait_for_queues(shared, "quick", "heavy", "celery")
        with writing(shared) as connection:
            uid = find_worker(connection, "one@host")
            assert drain_worker(connection, uid, by="ada", note=None)
        drained = wait_for_queues(shared)
        sender.send([MESSAGE])

        def look_later() -> Seen | None:
            seen = next(iter(fetch(shared)), None)
            later = drained.heartbeat_at + timedelta(seconds=2)
            return seen if seen and seen.heartbeat_at > later else None

        wait_until(look_later, what="later signs of life")
        still_there = Queue.QUICK not in sender.find_empty_queues()
        assert write_by(shared, resume_worker, uid, note=None)
        wait_for_queues(shared, "quick", "heavy", "celery")
        wait_until(
            lambda: Queue.QUICK in sender.find_empty_queues(),
            what="the message to be taken",
        )
        assert worker.poll() is None
        end(worker, log)

    assert still_there
    assert [] == fetch(shared)
