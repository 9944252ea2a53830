"""The latest operations of actions, from both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from models.errors import NotFoundError
from models.operation_state import OperationState
from overview.recent_runs import (
    RecentRuns,
    fetch_recent_runs,
    fetch_runs_of_action,
    make_recent,
)
from tests.database import read_by
from tests.scheduling import (
    MINUTE,
    MONDAY,
    SECOND,
    add_app,
    add_mails,
    make_operation,
    post,
    put,
    record_all,
)


def fetch(engine: sa.Engine, *uids: str, limit: int = 20) -> dict[str, RecentRuns]:
    return read_by(engine, fetch_recent_runs, uids, limit=limit)


def run(
    engine: sa.Engine,
    number: int,
    took: timedelta,
    uid: str = "daily",
    state: OperationState = OperationState.SUCCEEDED,
) -> None:
    """Record an operation of the minute *number* that took so long, and ended so."""
    begin = MONDAY + number * MINUTE
    ended = {"state": state, "started_at": begin, "finished_at": begin + took}
    put(engine, number, action_uid=uid, **ended)


def test_the_latest_of_each_are_returned(engine: sa.Engine):
    """So many of each action, newest first; an action without any is left out."""
    for number in range(3):
        run(engine, number, SECOND)
    run(engine, 9, SECOND, "weekly", OperationState.FAILED)
    put(engine, 5, action_uid="other")

    found = fetch(engine, "daily", "weekly", "monthly", limit=2)

    assert {
        "daily": [(MONDAY + 2 * MINUTE, "succeeded"), (MONDAY + MINUTE, "succeeded")],
        "weekly": [(MONDAY + 9 * MINUTE, "failed")],
    } == {
        uid: [(each.occurrence, each.state) for each in recent.runs]
        for uid, recent in found.items()
    }


def test_an_event_of_many_users_is_not_read_as_a_whole(engine: sa.Engine):
    """Operations of one instant count one by one, so that no more are returned."""
    record_all(engine, *(make_operation(user_id=f"user-{n}") for n in range(30)))

    (recent,) = fetch(engine, "daily").values()

    assert 20 == len(recent.runs)
    assert 20 == len({each.user for each in recent.runs})


def test_the_median_is_of_those_that_succeeded(engine: sa.Engine):
    """What failed at once or still runs says nothing of how long a run takes."""
    for number, seconds in enumerate((3, 1, 8)):
        run(engine, number, seconds * SECOND)
    run(engine, 3, 60 * SECOND, state=OperationState.FAILED)
    put(engine, 4)

    (recent,) = fetch(engine, "daily").values()

    assert 3.0 == recent.median_s
    assert [None, 60.0, 8.0, 1.0, 3.0] == [each.took_s for each in recent.runs]
    assert make_recent(()).median is None


def test_mails_that_may_not_have_arrived_are_told(engine: sa.Engine):
    """The operation succeeded; that is not all that there is to say."""
    run(engine, 0, SECOND)
    add_mails(engine, put(engine, 1), {"ada": "uncertain"})

    (recent,) = fetch(engine, "daily").values()

    assert [True, False] == [each.is_uncertain for each in recent.runs]


def test_one_action_is_asked_for_by_its_uid(engine: sa.Engine):
    """Another small app's action is unknown, like one that has never been."""
    add_app(engine)
    post(engine, uid="daily")
    run(engine, 0, SECOND)
    assert 1 == len(read_by(engine, fetch_runs_of_action, "daily", limit=5).runs)
    with pytest.raises(NotFoundError):
        read_by(engine, fetch_runs_of_action, "daily", limit=5, app="other")
