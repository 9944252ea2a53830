"""What is under way, how long it usually takes, and how the last run went."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from actions.read_actions import fetch_last_runs
from models.database.engine import reading
from models.operation_state import Queue
from operations.running.pace import RUNS, Usual, fetch_usual, fetch_working
from tests.database import read_by
from tests.scheduling import (
    MINUTE,
    MONDAY,
    SECOND,
    add_revision,
    add_steps,
    edit,
    get_now,
    make_operation,
    must_claim,
    record_all,
)


def add_step(
    engine: sa.Engine,
    id_: UUID,
    name: str,
    state: str,
    *,
    took: timedelta | None = None,
) -> None:
    ended = None if took is None else MONDAY + took
    times = {"started_at": MONDAY, "finished_at": ended}
    add_steps(engine, id_, {"name": name, "state": state, **times})


def test_step_usually_takes_the_median_of_its_latest_successes(engine: sa.Engine):
    """Older runs, failures, and other actions do not count."""
    add_revision(engine)
    made = [make_operation(n) for n in range(RUNS + 2)]
    record_all(engine, *made, make_operation(99, action_uid="other"))
    for number, operation in enumerate(made[2:]):
        state = "failed" if number < 3 else "succeeded"
        add_step(engine, operation.id, "refresh", state, took=number * SECOND)
    add_step(engine, made[0].id, "refresh", "succeeded", took=9000 * SECOND)
    other = make_operation(99, action_uid="other").id
    add_step(engine, other, "refresh", "succeeded", took=9000 * SECOND)

    found = read_by(engine, fetch_usual, ["daily"])["daily"].steps

    assert {"refresh": Usual(11 * SECOND, RUNS - 3)} == found


def test_app_says_that_it_is_being_published(engine: sa.Engine):
    """As long as a worker has its heavy operation; other apps are not."""
    # of an action whose claim begins no step before it has looked for the user
    add_revision(engine, when={"after": "instance.user.last_seen", "delay": "PT1H"})
    heavy = make_operation(1, queue=Queue.HEAVY)
    record_all(engine, make_operation(0), heavy)
    assert {} == read_by(engine, fetch_working)
    must_claim(engine, heavy.id)
    assert "at work" == read_by(engine, fetch_working)["app"].verb
    add_step(engine, heavy.id, "publish", "running")

    with reading(engine) as connection:
        working = fetch_working(connection, "app")["app"]
        assert {} == fetch_working(connection, "other")

    assert ("being published", heavy.id, MONDAY) == (
        working.verb,
        working.operation_id,
        working.since,
    )


def test_last_run_and_last_success_are_told_of_many_actions(engine: sa.Engine):
    """The latest by occurrence, whatever was recorded last; none of who never ran."""
    add_revision(engine)
    made = [make_operation(n) for n in (3, 1, 2)]
    record_all(engine, *made, make_operation(1, action_uid="other"))
    now = get_now(engine)
    ends = (("failed", now), ("succeeded", now - 2 * MINUTE), ("skipped", now - MINUTE))
    for operation, (state, finished_at) in zip(made, ends, strict=True):
        edit(engine, operation.id, state=state, finished_at=finished_at)

    with reading(engine) as connection:
        found = fetch_last_runs(connection, ["daily", "other", "never"])
        assert {} == fetch_last_runs(connection, [])

    assert {"daily", "other"} == set(found)
    daily = found["daily"]
    assert ("failed", made[0].id, now - 2 * MINUTE) == (
        daily.state,
        daily.operation,
        daily.succeeded_at,
    )
    assert ("pending", None) == (found["other"].state, found["other"].succeeded_at)
