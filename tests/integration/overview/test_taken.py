"""How long an operation took is the same wherever it is told."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from actions.load.foresee import Whose
from models.database.engine import reading
from models.operation_state import OperationState, Queue, StepState
from operations.running.pace import ATTEMPTS_KEY, fetch_usual
from overview.installation.figures import fetch_spread
from overview.operations import fetch_shown_operation
from overview.recent_runs import fetch_recent_runs
from tests.database import read_by
from tests.scheduling import MONDAY, SECOND, add_app, add_steps, at, get_now, post, put
from web.timeline.fetch_timeline import fetch_timeline

NOON = at("12:00")


def record(engine: sa.Engine, **values: Any) -> UUID:
    """Record an operation that began at MONDAY and succeeded just after noon."""
    ended = {
        "state": OperationState.SUCCEEDED,
        "recorded_at": MONDAY,
        "started_at": MONDAY,
        "finished_at": NOON + 2 * SECOND,
    }
    return put(engine, **{**ended, **values})


def make_step(
    name: str, began: datetime, seconds: int, state: StepState = StepState.SUCCEEDED
) -> dict[str, Any]:
    ended = began + seconds * SECOND
    return {"name": name, "state": state, "started_at": began, "finished_at": ended}


def get_took(engine: sa.Engine, operation_id: UUID) -> timedelta | None:
    return read_by(engine, fetch_shown_operation, operation_id).took


def test_hours_in_which_it_lay_failed_do_not_count(engine: sa.Engine):
    """Nowhere: only what its steps took, each in the last attempt at it."""
    add_app(engine)
    post(engine, uid="daily")
    made = record(engine, attempt=4)
    add_steps(
        engine, made, make_step("refresh", MONDAY, 60), make_step("publish", NOON, 2)
    )

    with reading(engine) as connection:
        shown = fetch_shown_operation(connection, made)
        recent = fetch_recent_runs(connection, ["daily"], limit=5)["daily"]
        timeline = fetch_timeline(connection, MONDAY, at("18:00"), whose=Whose())
        usual = fetch_usual(connection, ["daily"])["daily"]
        age = get_now(engine) - MONDAY + timedelta(days=1)
        spread = fetch_spread(connection, [61, 63], within=age)

    took = 62 * SECOND
    assert took == shown.took
    assert [62.0] == [each.took_s for each in recent.runs]
    assert took == recent.median
    assert [took] == [lane.usual for lane in timeline.lanes]
    assert took == usual.run
    assert [0, 1, 1] == list(spread[Queue.QUICK].run_time)


def test_what_ran_once_took_from_start_to_end(engine: sa.Engine):
    """Also if it was canceled in the middle of a step, or has none."""
    made = record(engine, attempt=1, state=OperationState.CANCELED)

    assert NOON + 2 * SECOND - MONDAY == get_took(engine, made)


def test_time_in_which_the_platform_was_away_does_not_count(engine: sa.Engine):
    """The attempt has the number of the one that was postponed."""
    postponed = {"attempt": 1, "outcome": "postponed"}
    made = record(engine, attempt=1, details={ATTEMPTS_KEY: [postponed]})
    add_steps(engine, made, make_step("publish", NOON, 2))

    assert 2 * SECOND == get_took(engine, made)


@pytest.mark.parametrize("values", [{"started_at": None}, {"finished_at": None}])
def test_what_has_not_run_or_still_runs_has_taken_nothing(
    engine: sa.Engine, values: dict[str, Any]
):
    made = record(engine, attempt=2, **values)
    add_steps(engine, made, make_step("publish", NOON, 2))

    assert get_took(engine, made) is None


def test_step_that_did_not_end_counts_nothing(engine: sa.Engine):
    """Nobody knows how long one ran that was canceled between two attempts."""
    made = record(engine, attempt=2, state=OperationState.CANCELED)
    add_steps(
        engine,
        made,
        make_step("refresh", MONDAY, 60),
        make_step("publish", NOON, 3600, StepState.SKIPPED),
    )

    assert 60 * SECOND == get_took(engine, made)
