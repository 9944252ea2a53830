"""Whether a scheduler leads and ticks, as doctor judges it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa
from prometheus_client import start_http_server

from actions.lease import Leader, record_send_failure, record_tick
from models.database.engine import db_now, read_host_clock
from models.database.tables import leases
from operations.fleet.processes import ProcessRole
from overview.doctor.examine import look_at_own_scheduler
from telemetry import IS_LEADER, LAST_TICK
from tests.database import execute, write_by
from tests.presence import give_sign, make_worker
from tests.scheduling import MINUTE, examine, get_now
from tests.servers import find_free_port

S = timedelta(seconds=1)


def test_without_a_scheduler_two_things_are_bad(postgres_engine: sa.Engine):
    """Nobody leads, and there never was a tick; whoever leads is given time for it."""
    engine = postgres_engine

    before = [examine(engine, name)[0].health for name in ("leader", "tick")]
    assert Leader(engine).hold()
    after = [examine(engine, name)[0].health for name in ("leader", "tick")]

    assert (["bad", "bad"], ["ok", "ok"]) == (before, after)


@pytest.mark.parametrize(
    ("ends_in", "standby", "health", "told"),
    [
        (35 * S, False, "bad", "it is dead, frozen or cut off. There is no standby."),
        (35 * S, True, "look", r"scheduler@b \(pid \d+\) takes over in \d+ s\.$"),
        (
            -MINUTE,
            False,
            "bad",
            "Its lease ran out 1 min.* ago, .* Start a scheduler: ",
        ),
    ],
    ids=["alone", "with a standby", "ran out"],
)
def test_dead_leader_is_told_with_what_comes(
    postgres_engine: sa.Engine,
    ends_in: timedelta,
    standby: bool,  # noqa: FBT001 - a case
    health: str,
    told: str,
):
    engine = postgres_engine
    assert Leader(engine).hold()
    values = {"heartbeat_at": db_now(-25 * S), "expires_at": db_now(ends_in)}
    ticked = {name: db_now(-2 * MINUTE) for name in ("acquired_at", "last_tick_at")}
    execute(engine, sa.update(leases).values({**values, **ticked}))
    if standby:
        role = ProcessRole.SCHEDULER
        give_sign(engine, make_worker("b", role=role, name="scheduler@b"))

    (found,) = examine(engine, "leader")
    (tick,) = examine(engine, "tick")

    assert health == found.health
    assert re.search(told, found.detail), found.detail
    assert ("bad", "nobody ticks") == (tick.health, tick.title)


@pytest.mark.parametrize(
    ("age", "health", "told"),
    [
        (MINUTE, "ok", " ago"),
        (2 * MINUTE, "bad", " ago, though a scheduler leads."),
        (-MINUTE, "bad", " ahead, though a scheduler leads."),
    ],
)
def test_leader_that_does_not_tick_is_bad(
    postgres_engine: sa.Engine, age: timedelta, health: str, told: str
):
    """
    A leader that renews its lease and ticks no more is found out, also if its last tick
    lies ahead: it ticks at once when the clock was set back.
    """
    assert Leader(postgres_engine).hold()
    values = {"acquired_at": db_now(-5 * MINUTE), "last_tick_at": db_now(-age)}
    execute(postgres_engine, sa.update(leases).values(values))

    (found,) = examine(postgres_engine, "tick")

    assert (health, True) == (found.health, told in found.detail), found.detail


def test_error_of_the_broker_is_repeated(postgres_engine: sa.Engine):
    """The broker may answer here: what the scheduler heard counts."""
    assert Leader(postgres_engine).hold()
    before = examine(postgres_engine, "sending")

    write_by(postgres_engine, record_send_failure, "NOAUTH Authentication required")
    (found,) = examine(postgres_engine, "sending")

    assert ([], "bad") == (before, found.health)
    assert "NOAUTH Authentication required. What falls due" in found.detail


@pytest.fixture(scope="module")
def metrics_url() -> Iterator[str]:
    """Serve the metrics of this process, as the scheduler does."""
    server, thread = start_http_server(0, "127.0.0.1")
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()
    IS_LEADER.set(0)
    LAST_TICK.set(0)


@pytest.mark.parametrize(
    ("is_leader", "own_age", "age", "health"),
    [
        (1, MINUTE, MINUTE, "ok"),
        # It hangs; whoever has the lease by now ticks.
        (1, 4 * MINUTE, MINUTE, "bad"),
        # It led once, and has stood by since.
        (0, 60 * MINUTE, MINUTE, "ok"),
        (0, None, MINUTE, "ok"),
        (0, None, 4 * MINUTE, "bad"),
        (1, None, MINUTE, "bad"),
    ],
    ids=["leads", "hangs", "led", "standby", "nobody-ticks", "never-ticked"],
)
def test_health_of_a_scheduler_follows_its_ticks(
    postgres_engine: sa.Engine,
    metrics_url: str,
    is_leader: int,
    own_age: timedelta | None,
    age: timedelta,
    health: str,
):
    """A leader is judged by what it did itself, a standby by what anybody did."""
    IS_LEADER.set(is_leader)
    now = read_host_clock()
    LAST_TICK.set(0 if own_age is None else (now - own_age).timestamp())
    assert Leader(postgres_engine).hold()
    write_by(postgres_engine, record_tick, get_now(postgres_engine) - age)

    assert health == look_at_own_scheduler(postgres_engine, metrics_url).health


def test_scheduler_that_does_not_answer_is_bad(postgres_engine: sa.Engine):
    url = f"http://127.0.0.1:{find_free_port()}/metrics"

    assert "bad" == look_at_own_scheduler(postgres_engine, url).health
