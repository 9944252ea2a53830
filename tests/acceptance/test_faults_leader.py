"""One leader, whatever happens to it: frozen, killed, stopped (real processes)."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.lease import Holder, get_holder
from models.database.engine import db_now, reading, writing
from models.database.tables import leases
from models.operation_state import OperationState
from tests.chaos.installation import SHORT, Installation, freeze, kill, thaw
from tests.scheduling import edit_action, fetch_all, get_now
from tests.servers import PATIENCE_S, wait_until


def wait_for_leader(installation: Installation, pid: int) -> Holder:
    """Wait until the scheduler *pid* holds a lease that has not run out."""

    def leads() -> Holder | None:
        holder = get_holder(installation.engine)
        return holder if holder and holder.pid == pid and not holder.is_stale else None

    holder = wait_until(leads, what=f"{pid} to lead")
    assert holder is not None  # or wait_until had raised
    return holder


def test_standby_takes_over_from_a_leader_that_was_killed(
    installation: Installation,
) -> None:
    """Not before its lease has run out, and then without anybody's help."""
    with installation.scheduler("first") as first:
        before = wait_for_leader(installation, first.pid)
        with installation.scheduler("second") as second:
            installation.wait_for_log("second", '"standing_by"')
            kill(first)
            ends_at = let_lease_end(installation)
            after = wait_for_leader(installation, second.pid)

    assert before.fence + 1 == after.fence
    assert ends_at <= after.acquired_at


def let_lease_end(installation: Installation) -> datetime:
    """Let an hour of the lease pass, all but two seconds; return when it ends."""
    with writing(installation.engine) as connection:
        ends_at: datetime = connection.execute(
            sa.update(leases)
            .values(expires_at=db_now(timedelta(seconds=2)))
            .returning(leases.c.expires_at)
        ).scalar_one()
    return ends_at


def test_standby_takes_over_at_once_from_a_leader_that_stops(
    installation: Installation,
) -> None:
    """A planned stop gives the lease away; nobody waits for it to run out."""
    with installation.scheduler("first") as first:
        wait_for_leader(installation, first.pid)
        with installation.scheduler("second") as second:
            installation.wait_for_log("second", '"standing_by"')
            first.send_signal(signal.SIGTERM)
            wait_for_leader(installation, second.pid)

            assert first.wait(PATIENCE_S) == 0
    assert '"lease_released"' in installation.read_log("first")


def test_frozen_leader_demotes_itself_when_it_wakes(installation: Installation) -> None:
    """It finds its lease taken, writes nothing and stands by."""
    installation.options |= SHORT
    with installation.scheduler("first") as first:
        # Later than its lease: whoever is frozen between the two never says it led.
        installation.wait_for_log("first", '"lease_acquired"')
        installation.options.clear()
        with installation.scheduler("second") as second:
            freeze(first)
            holder = wait_for_leader(installation, second.pid)
            thaw(first)
            installation.wait_for_log("first", '"lease_lost"')
            installation.wait_for_log("first", '"standing_by"')

            assert first.poll() is None
            still = get_holder(installation.engine)
            assert still is not None
            assert (still.pid, still.fence) == (second.pid, holder.fence)


def test_leader_frozen_inside_a_transaction_blocks_nobody(
    installation: Installation,
) -> None:
    """The database ends its session: its locks are free, its tick is undone."""
    engine = installation.engine
    installation.options |= SHORT
    uid = installation.add("sleep", 0, when={"cron_rule": "* * * * *"})
    make_due(installation, uid)
    with ExitStack() as stack:
        # Its transaction locks the lease row first, and next this one.
        connection = stack.enter_context(engine.connect())
        connection.execute(sa.text("set local idle_in_transaction_session_timeout = 0"))
        connection.execute(
            sa.text("select 1 from scheduled_actions where uid = :uid for update"),
            {"uid": uid},
        )
        first = stack.enter_context(installation.scheduler("first"))
        wait_until(lambda: count_waiting(installation), what="the leader to be blocked")
        freeze(first)
        connection.rollback()

        installation.options.clear()
        second = stack.enter_context(installation.scheduler("second"))
        holder = wait_for_leader(installation, second.pid)
        wait_until(lambda: fetch_all(engine), what="the second to decide")
        thaw(first)
        installation.wait_for_log("first", '"database_unreachable"')
        installation.wait_for_log("first", '"standing_by"')

        rows = fetch_all(engine)
        assert {holder.fence} == {row.fence for row in rows}
        assert len(rows) == len({row.occurrence for row in rows})
        still = get_holder(engine)
        assert still is not None
        assert still.pid == second.pid


def make_due(installation: Installation, uid: str) -> None:
    """Let an every-minute action have been there for two minutes."""
    since = get_now(installation.engine) - timedelta(minutes=2)
    edit_action(installation.engine, uid, next_due_at=since, effective_from=since)


def count_waiting(installation: Installation) -> int:
    with reading(installation.engine) as connection:
        found = connection.execute(
            sa.text(
                "select pid from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database()"
            )
        )
        return len(found.all())


def test_three_schedulers_that_start_together_have_one_leader(
    installation: Installation,
) -> None:
    """The lease is taken in one statement; an occurrence is recorded once."""
    engine = installation.engine
    uid = installation.add("sleep", 0, when={"cron_rule": "* * * * *"})
    make_due(installation, uid)

    def read_logs() -> list[str]:
        return [installation.read_log(f"scheduler-{number}") for number in range(3)]

    with ExitStack() as stack:
        for number in range(3):
            stack.enter_context(installation.scheduler(f"scheduler-{number}"))
        wait_until(lambda: len(fetch_all(engine)) >= 2, what="operations")
        wait_until(
            lambda: 2 == sum('"standing_by"' in each for each in read_logs()),
            what="the others to have tried",
        )
        logs = read_logs()

    rows = fetch_all(engine)
    assert [1, 0, 0] == sorted(
        (log.count('"lease_acquired"') for log in logs), reverse=True
    )
    assert len(rows) == len({row.occurrence for row in rows})
    assert {OperationState.PENDING, OperationState.QUEUED} >= {r.state for r in rows}
