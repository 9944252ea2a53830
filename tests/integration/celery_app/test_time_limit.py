"""A soft time limit that strikes where Python is not at work."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa
from billiard.pool import SIG_SOFT_TIMEOUT, soft_timeout_sighandler

from celery_app.tasks import execute
from models.database.engine import make_engine
from models.errors import StepError
from models.operation_state import OperationState, Reason, StepState
from operations.adapters.smtp import make_mailer
from operations.claiming.heart import Heart, Worker
from operations.mail.message import Fate, Mail, Sending, WebhookRequest
from tests.scheduling import add_runs, get, get_steps, make_operation
from tests.servers import run_silent_server, wait_until
from tests.unit.operations.fakes import World

DAILY = make_operation()
LEASE = timedelta(seconds=60)

#: Far beyond the limit, and far below what a test may take.
LONG_S = 60


@dataclass
class Work:
    """Does *work* where a webhook would be called; *strike* is called before."""

    work: Callable[[], None]
    strike: Callable[[], None]

    def post(self, request: WebhookRequest, *, now: datetime) -> Sending:
        """Work, and say that it went well."""
        del request, now
        self.strike()
        self.work()
        return Sending(Fate.SENT)


@contextmanager
def soft_limit() -> Iterator[Callable[[], None]]:
    """Give what makes the signal of the pool's parent come in a moment."""
    before = signal.signal(SIG_SOFT_TIMEOUT, soft_timeout_sighandler)
    # Should it come too early, it still comes while the step runs.
    timer = threading.Timer(0.3, reach_limit)
    try:
        yield timer.start
    finally:
        if timer.ident is not None:
            timer.join()
        signal.signal(SIG_SOFT_TIMEOUT, before)


def reach_limit() -> None:
    """Be the parent of the pool, whose signal comes now."""
    os.kill(os.getpid(), SIG_SOFT_TIMEOUT)


def run(
    engine: sa.Engine, tmp_path: Path, work: Callable[[], None], *, limited: bool = True
) -> None:
    """Run an operation that does *work*; *limited*: its time is up in the midst."""
    steps = {"call_webhook": {"url": "https://example.com/"}, "run_task": {"name": "t"}}
    add_runs(engine, DAILY, operations=steps)
    ports = World(tmp_path).make_context().ports
    heart = Heart(engine, lease=LEASE, every=LEASE / 3)
    try:
        with soft_limit() as strike:
            webhooks = Work(work, strike if limited else lambda: None)
            worker = Worker(engine, replace(ports, webhooks=webhooks), heart)
            execute(worker, str(DAILY.id), "quick@host")
    finally:
        heart.stop()


def assert_told(engine: sa.Engine) -> None:
    """Assert that the operation ended for its time, and no step after it ran."""
    row = get(engine, DAILY.id)
    steps = get_steps(engine, DAILY.id)

    assert (OperationState.FAILED, Reason.TIME_LIMIT) == (row.state, row.reason)
    assert [StepState.FAILED, StepState.SKIPPED] == [step.state for step in steps]
    assert row.claim_token is None


def test_query_of_postgresql_is_canceled(
    engine: sa.Engine, postgres_server_url: str, tmp_path: Path
):
    """The server stops it, too: nobody waits for what it finds."""
    other = make_engine(postgres_server_url, timeout=timedelta(seconds=LONG_S))
    query = f"SELECT pg_sleep({LONG_S}), '{tmp_path.name}'"

    def work() -> None:
        with other.connect() as connection:
            connection.exec_driver_sql(query)

    def is_running() -> bool:
        with other.connect() as connection:
            running = connection.execute(
                sa.text(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE query = :query AND state = 'active'"
                ),
                {"query": query},
            )
            return bool(running.scalar_one())

    run(engine, tmp_path, work)

    assert_told(engine)
    wait_until(lambda: not is_running(), what="the query to end")
    other.dispose()


def download(place: str) -> None:
    httpx2.get(f"http://{place}/", timeout=LONG_S)


def mail(place: str) -> None:
    timeout = timedelta(seconds=LONG_S)
    mailer = make_mailer(f"smtp://{place}", sender="m@x.org", timeout=timeout)
    with mailer.session() as send:
        send(Mail("1@minutehand", "ann@x.org", "Ann", "Hi", "Hi"), now=DAILY.occurrence)


@pytest.mark.parametrize("work", [download, mail])
def test_wait_for_a_server_is_interrupted(
    engine: sa.Engine, tmp_path: Path, work: Callable[[str], None]
):
    """One that says nothing is left alone, whatever the mailer makes of it."""
    with run_silent_server() as place:
        run(engine, tmp_path, partial(work, place))

    assert_told(engine)


@pytest.mark.parametrize("permanent", [True, False])
def test_limit_is_told_though_the_exception_was_translated(
    engine: sa.Engine, tmp_path: Path, *, permanent: bool
):
    """What a library makes of it is never taken for the step's own failure."""

    def work() -> None:
        try:
            reach_limit()
        except Exception as error:
            raise StepError("translated", permanent=permanent) from error

    run(engine, tmp_path, work, limited=False)

    assert_told(engine)


def test_limit_is_told_though_the_exception_was_swallowed(
    engine: sa.Engine, tmp_path: Path
):
    """The step that ended is done; no other begins."""

    def work() -> None:
        with suppress(Exception):
            reach_limit()

    run(engine, tmp_path, work, limited=False)
    row = get(engine, DAILY.id)
    steps = get_steps(engine, DAILY.id)

    assert (OperationState.FAILED, Reason.TIME_LIMIT) == (row.state, row.reason)
    assert [StepState.SUCCEEDED, StepState.FAILED] == [step.state for step in steps]


def test_other_errors_stay_what_they_are(engine: sa.Engine, tmp_path: Path):
    """Before the limit is reached, a failure is the step's."""

    def work() -> None:
        raise StepError("bad", permanent=True)

    run(engine, tmp_path, work, limited=False)

    assert str(get(engine, DAILY.id).reason).startswith(Reason.STEP_FAILED)
