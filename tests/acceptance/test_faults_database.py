"""A PostgreSQL that is killed, started again, or hangs (real processes)."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from models.database.tables import leases
from models.errors import UnreachableError
from models.operation_state import OperationState
from scheduler_server import Scheduler
from tests.chaos.installation import SHORT, Installation
from tests.chaos.servers import Victim, run_faulty_postgres
from tests.database import execute
from tests.scheduling import MINUTE, edit_action, fetch_all, get, get_now
from tests.servers import PATIENCE_S, find_free_port, is_listening, run_warm, wait_until


@pytest.fixture(scope="module")
def database() -> Iterator[Victim]:
    """Give a PostgreSQL of this module alone."""
    with run_faulty_postgres() as server:
        yield server


@pytest.fixture
def installation(
    database: Victim, redis_url: str, tmp_path: Path
) -> Iterator[Installation]:
    """Give an installation on that database, in which nobody leads."""
    made = Installation(database.url, redis_url, tmp_path)
    execute(made.engine, sa.delete(leases))
    yield made
    made.engine.dispose()


def restart(installation: Installation, database: Victim) -> None:
    """Start the database again, and forget the connections of the test itself."""
    database.start()
    installation.engine.dispose()


def test_database_that_crashes_loses_nothing(
    installation: Installation, database: Victim
) -> None:
    """Scheduler and worker go on when it is back; each run happens once."""
    first = installation.run("sleep", 0)
    # One at a time: a claim whose answer is cut off waits for its lease, here an hour.
    one = installation.worker(concurrency=1)
    with installation.scheduler() as scheduler, one as worker:
        installation.wait_until_final(first)
        gate = installation.folder / "gate"
        during = installation.run("wait_deaf", str(gate))
        waiting = installation.run("sleep", 0)
        installation.wait_for_effects(during)
        database.kill()
        installation.wait_for_log("scheduler", "database_unreachable")
        restart(installation, database)
        gate.touch()
        rows = [installation.wait_until_final(each) for each in (during, waiting)]

        assert scheduler.poll() is None
        assert worker.poll() is None
    assert [OperationState.SUCCEEDED] * 2 == [row.state for row in rows]
    assert installation.count_effects(waiting) == 1
    assert installation.count_effects(during) == 1


def test_worker_that_starts_without_database_begins_when_it_is_there(
    installation: Installation, database: Victim
) -> None:
    """It takes no message before it knows which installation it is of."""
    database.kill()
    with installation.worker() as worker:
        installation.wait_for_log("worker", "database_unreachable")
        assert " ready." not in installation.read_log("worker")
        restart(installation, database)
        with installation.scheduler():
            installation.wait_until_final(installation.run("sleep", 0))

        assert worker.poll() is None
    database.kill()
    with installation.worker("second") as worker:
        # by its command, and then by what would take messages
        installation.wait_for_log("second", "database_unreachable", 2)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_S) == 0
    restart(installation, database)


def test_web_that_starts_without_database_answers_when_it_is_there(
    installation: Installation, database: Victim
) -> None:
    """As a scheduler and a worker do: nobody has to start it again."""
    port = find_free_port()
    installation.options["WEB_ADDRESS"] = f"127.0.0.1:{port}"
    command = (sys.executable, "-m", "cli.main", "web")
    log = installation.folder / "web.log"
    database.kill()
    with run_warm(command, log=log, environ=installation.environ) as web:
        wait_until(
            lambda: (
                "database_unreachable" in installation.read_log("web")
                or web.poll() is not None
            ),
            what="the pages to notice",
        )
        assert web.poll() is None
        restart(installation, database)
        wait_until(lambda: is_listening(port), what="the pages")

        assert web.poll() is None


def set_read_only(database: Victim, value: str) -> None:
    """Demote a server that goes on answering, or promote it again."""
    with psycopg.connect(
        database.url.replace("+psycopg", ""), autocommit=True
    ) as connection:
        connection.execute(f"alter system set default_transaction_read_only = {value}")
        connection.execute("select pg_reload_conf()")


def test_database_that_is_read_only_for_a_while_costs_no_process(
    installation: Installation, database: Victim
) -> None:
    """Leader, standby and the heart of a worker go on after a failover."""
    gate = installation.folder / "gate"
    during = installation.run("wait_deaf", str(gate))
    with (
        installation.scheduler("first") as first,
        installation.scheduler("second") as second,
        installation.worker() as worker,
    ):
        installation.wait_for_effects(during)
        set_read_only(database, "on")
        try:
            # Once a minute, however often they try.
            for name, event in [
                ("first", "database_unreachable"),
                ("second", "database_unreachable"),
                ("worker", "heartbeat_failed"),
            ]:
                installation.wait_for_log(name, event)
        finally:
            set_read_only(database, "off")
        beaten_at = get(installation.engine, during).lease_expires_at
        wait_until(
            lambda: get(installation.engine, during).lease_expires_at > beaten_at,
            what="the next renewal",
        )
        gate.touch()
        after = installation.run("sleep", 0)
        rows = [installation.wait_until_final(each) for each in (during, after)]

        assert [None] * 3 == [each.poll() for each in (first, second, worker)]
    assert [(OperationState.SUCCEEDED, 1)] * 2 == [(r.state, r.attempt) for r in rows]
    logs = [installation.read_log(name) for name in ("first", "second", "worker")]
    assert [False] * 3 == ["Traceback" in each for each in logs]


def test_frozen_database_costs_a_deadline(
    installation: Installation, database: Victim
) -> None:
    """No call hangs: psycopg gives up two seconds after the database timeout."""
    installation.options |= SHORT
    settings = installation.settings
    scheduler = Scheduler.make(settings)
    scheduler.wake()
    limit_s = 10 * settings.database_timeout.total_seconds()
    database.freeze()
    costs = []
    try:
        for _ in range(2):
            started_at = time.monotonic()
            scheduler.wake()
            costs.append(time.monotonic() - started_at)
        started_at = time.monotonic()
        scheduler.stop()
        costs.append(time.monotonic() - started_at)
    finally:
        database.thaw()

    assert [True] * 3 == [cost < limit_s for cost in costs], costs


def test_frozen_database_does_not_hold_up_a_stop(
    installation: Installation, database: Victim
) -> None:
    """A scheduler that is told to stop ends, though nobody takes its lease back."""
    installation.options |= SHORT
    with installation.scheduler() as scheduler:
        installation.wait_for_log("scheduler", "lease_acquired")
        database.freeze()
        try:
            scheduler.send_signal(signal.SIGTERM)

            # some deadlines of 2 s each; not the patience with which one waits for it
            assert scheduler.wait(PATIENCE_S / 3) == 0
        finally:
            database.thaw()


def test_minutes_without_database_are_made_up_for(
    installation: Installation, database: Victim
) -> None:
    """What was due while it was away, and is in the window, is recorded after."""
    uid = installation.add("sleep", 0, when={"cron_rule": "* * * * *"})
    scheduler = Scheduler.make(installation.settings)
    scheduler.wake()
    now = get_now(installation.engine).replace(second=0, microsecond=0)
    edit_action(installation.engine, uid, next_due_at=now, effective_from=now)
    database.kill()
    for minute in range(3):
        with pytest.raises(UnreachableError):
            scheduler.tick(now + minute * MINUTE)
    restart(installation, database)
    wait_until(scheduler.leader.hold, what="the lease")
    scheduler.tick(now + 3 * MINUTE)
    scheduler.stop()

    due = [now + minute * MINUTE for minute in range(4)]
    rows = [r.occurrence for r in fetch_all(installation.engine) if r.action_uid == uid]
    assert due == rows
