"""A drained worker takes nothing new, until it is resumed."""

from __future__ import annotations

import os
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
from operations.fleet.draining import drain_worker, find_worker, resume_worker
from operations.fleet.processes import Seen, fetch_processes
from operations.sending.order import Message
from settings import read_settings
from tests.database import read_by, write_by
from tests.servers import run_process, wait_until

#: A worker that gives a sign of life each second: the test waits for some of them.
PROGRAM = """
import sys
from datetime import timedelta
import celery_app.signs_of_life
celery_app.signs_of_life.RENEW_EVERY = timedelta(seconds=1)
from celery.__main__ import main
sys.argv = "celery -A celery_app worker -c 1 -n one@host".split() + {more}
sys.exit(main())
"""
MESSAGE = Message(UUID(int=7), Queue.QUICK, "a test", attempt=0)


@pytest.fixture
def shared(postgres_url: str) -> Iterator[sa.Engine]:
    """Give an engine on the database of the worker."""
    engine = make_engine(postgres_url)
    yield engine
    engine.dispose()


@contextmanager
def sending(broker_url: str) -> Iterator[CelerySender]:
    settings = read_settings({"MINUTEHAND_BROKER_URL": broker_url}, env_file=None)
    sender = CelerySender(make_app(settings), timeout=timedelta(seconds=30))
    yield sender
    sender.close()


def fetch(engine: sa.Engine) -> Seen | None:
    return next(iter(read_by(engine, fetch_processes)), None)


def wait_for_queues(engine: sa.Engine, *names: str) -> Seen:
    """Wait until the worker takes from these queues alone."""

    def look() -> Seen | None:
        seen = fetch(engine)
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
    """From all lanes of its queues; afterwards it takes what waited meanwhile."""
    given = {
        "HOME": str(tmp_path),
        "DATABASE_URL": postgres_url,
        "BROKER_URL": redis_url,
    }
    environ = {f"MINUTEHAND_{name}": value for name, value in given.items()}
    command = (sys.executable, "-c", PROGRAM.format(more=more))
    with (
        sending(redis_url) as sender,
        run_process(
            command, log=tmp_path / "log", environ={**os.environ, **environ}
        ) as worker,
    ):
        wait_for_queues(shared, "quick", "heavy", "celery")
        with writing(shared) as connection:
            uid = find_worker(connection, "one@host")
            assert drain_worker(connection, uid, by="ada", note=None)
        drained = wait_for_queues(shared)
        sender.send([MESSAGE])

        def look_later() -> Seen | None:
            seen = fetch(shared)
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

    assert still_there
