"""Waiting for the state of an operation, which holds nothing meanwhile."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
import sqlalchemy as sa

from models.database.engine import reading
from models.errors import UnreachableError
from operations.state import (
    get_operation_state,
    outlast,
    read_operation_states,
    wait_for_state,
)
from tests.scheduling import edit, make_operation, put, record_all

DAILY = make_operation()
OTHER = make_operation(1)


class Clock:
    """Time that passes while somebody sleeps; *acts* happen at their second."""

    def __init__(self, engine: sa.Engine, **acts: str) -> None:
        """At second *n*, DAILY gets the state ``at_n``."""
        self.engine = engine
        self.acts = {int(name.removeprefix("at_")): to for name, to in acts.items()}
        self.now = 0.0
        self.held: list[int] = []

    def sleep(self, seconds: float) -> None:
        """Pass *seconds*."""
        assert isinstance(self.engine.pool, sa.QueuePool)
        self.held.append(self.engine.pool.checkedout())
        self.now += seconds
        if (to := self.acts.pop(int(self.now), None)) is not None:
            edit(self.engine, DAILY.id, state=to)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.now


def wait(engine: sa.Engine, clock: Clock, seconds: float | None = None) -> str | None:
    """Wait for DAILY on *clock*."""
    timeout = None if seconds is None else timedelta(seconds=seconds)
    return wait_for_state(
        engine, DAILY.id, timeout=timeout, sleep=clock.sleep, monotonic=clock.monotonic
    )


def test_what_is_final_is_answered_at_once(engine: sa.Engine):
    """Nobody sleeps."""
    put(engine, state="skipped")
    clock = Clock(engine)

    assert "skipped" == wait(engine, clock)
    assert [] == clock.held


@pytest.mark.parametrize(
    ("patience_s", "state", "asked_s"), [(None, "succeeded", 5), (2.5, "running", 2.5)]
)
def test_waiting_ends_with_the_operation_or_when_the_time_is_over(
    engine: sa.Engine, patience_s: float | None, state: str, asked_s: float
):
    """With the state of that moment; and no connection is held while one waits."""
    put(engine)
    clock = Clock(engine, at_2="running", at_5="succeeded")

    assert state == wait(engine, clock, patience_s)
    assert (asked_s, {0}) == (clock.now, set(clock.held))


def test_unknown_operation_has_no_state_to_wait_for(engine: sa.Engine):
    """Neither one that never was, nor one of another small app."""
    clock = Clock(engine)
    record_all(engine, DAILY)

    assert wait_for_state(engine, uuid4(), sleep=clock.sleep) is None
    assert wait_for_state(engine, "no uuid", sleep=clock.sleep) is None
    with reading(engine) as connection:
        assert get_operation_state(connection, DAILY.id, app="other") is None
        assert "pending" == get_operation_state(connection, DAILY.id, app="app")


def test_restart_of_the_database_ends_no_waiting(engine: sa.Engine):
    """Half a minute is borne; then whoever waits should hear of it."""
    clock = Clock(engine)

    def ask(*, back_at: float) -> float:
        if clock.now < back_at:
            raise UnreachableError("it is away")
        return clock.now

    def wait_until(back_at: float) -> float:
        return outlast(
            partial(ask, back_at=back_at), sleep=clock.sleep, monotonic=clock.monotonic
        )

    assert 25 == wait_until(25)
    with pytest.raises(UnreachableError):
        wait_until(60)
    assert 25 + 30 == clock.now


def test_many_states_are_one_question(engine: sa.Engine):
    """Without those that nobody knows."""
    record_all(engine, DAILY, OTHER)
    edit(engine, OTHER.id, state="failed")

    found = read_operation_states(engine, [DAILY.id, OTHER.id, uuid4()])

    assert {DAILY.id: "pending", OTHER.id: "failed"} == found
