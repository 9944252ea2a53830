"""The timeline shows what ran and what will, and where it collides."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from actions.load.foresee import Whose
from models.operation_state import OperationState, Queue
from tests.database import read_by
from tests.scheduling import MINUTE, MONDAY, add_app, add_steps, at, get_now, post, put
from web.timeline.fetch_runs import PARTS
from web.timeline.fetch_timeline import Timeline, fetch_timeline

_S = OperationState


@pytest.fixture(autouse=True)
def _apps(engine: sa.Engine) -> None:
    """Give every test two small apps."""
    add_app(engine)
    add_app(engine, "books")


def ask(engine: sa.Engine, **options: Any) -> Timeline:
    given = {"since": MONDAY, "until": at("06:00"), "whose": Whose(), **options}
    return read_by(engine, fetch_timeline, **given)


def add(
    engine: sa.Engine,
    minute: int,
    took: float | None = 2,
    state: _S = _S.SUCCEEDED,
    **changes: Any,
) -> UUID:
    """Record a run that began so many minutes after MONDAY, as if it was done then."""
    begin = MONDAY + minute * MINUTE
    id_ = put(
        engine,
        minute,
        state=state,
        recorded_at=begin,
        started_at=begin if state not in {_S.MISSED, _S.PENDING} else None,
        finished_at=None if took is None else begin + took * MINUTE,
        **changes,
    )
    if state is _S.SUCCEEDED and took is not None:
        add_step(engine, id_, begin, begin + took * MINUTE)
    return id_


def add_step(engine: sa.Engine, id_: UUID, begin: datetime, end: datetime) -> None:
    times = {"started_at": begin, "finished_at": end}
    add_steps(engine, id_, {"name": "refresh", "state": "succeeded", **times})


def test_each_action_with_runs_has_a_lane(engine: sa.Engine):
    """What failed comes first, then what is under way, then the busiest."""
    post(engine, uid="busy", name="Busy one")
    for number in range(3):
        add(engine, 10 * number, action_uid="busy")
    add(engine, 5, None, _S.RUNNING, action_uid="running")
    add(engine, 7, 1, _S.FAILED, action_uid="failed")
    add(engine, 8, 1, action_uid="failed")

    found = ask(engine)

    assert [
        ("failed", None, 2, 1, 0),
        ("running", None, 1, 0, 1),
        ("busy", "Busy one", 3, 0, 0),
    ] == [(e.uid, e.name, e.count, e.troubled, e.live) for e in found.lanes]
    assert (3, 0) == (found.ran, found.due)
    busy = found.lanes[2]
    assert [
        (_S.SUCCEEDED, MONDAY + begin * MINUTE, MONDAY + (begin + 2) * MINUTE)
        for begin in (0, 10, 20)
    ] == [*busy.runs]
    assert found.lanes[1].runs[0].until == found.at
    assert 2 * MINUTE == busy.usual


def test_what_lies_outside_is_not_shown(engine: sa.Engine):
    """But what began before and went on is, and what still runs."""
    add(engine, -5 * 60, 1, action_uid="before")
    add(engine, -5 * 60, 6 * 60, action_uid="into")
    add(engine, -3 * 24 * 60, None, _S.RUNNING, action_uid="since days")
    add(engine, 6 * 60, action_uid="after")
    add(engine, 10, 90, _S.MISSED, action_uid="missed")

    assert {"into", "since days", "missed"} == {e.uid for e in ask(engine).lanes}


def test_runs_of_one_action_that_overlap_are_told(engine: sa.Engine):
    """The later one, and for how long; also with one that began long before."""
    add(engine, 0, 60)
    second = add(engine, 10, 5)
    third = add(engine, 20, 90)
    add(engine, 30, 5, action_uid="other")

    found = ask(engine)

    assert [(third, at("00:20"), at("01:00")), (second, at("00:10"), at("00:15"))] == [
        (e.operation_id, e.at, e.until) for e in found.overlaps
    ]
    assert 2 == found.overlaps_in_all


def test_what_is_due_has_a_lane_as_well(engine: sa.Engine):
    """After what ran, as far as there is room; all are counted."""
    now = get_now(engine)
    post(engine, uid="minutely", name="minutely", when={"cron_rule": "* * * * *"})
    post(engine, uid="other", name="other", when={"cron_rule": "*/2 * * * *"})

    found = ask(engine, since=now - timedelta(hours=1), until=now + timedelta(hours=1))
    short = ask(
        engine, since=now - timedelta(hours=1), until=now + timedelta(hours=1), lanes=1
    )

    assert {"minutely", "other"} == {each.uid for each in found.lanes}
    minutely = next(each for each in found.lanes if each.uid == "minutely")
    assert 58 <= len(minutely.planned) <= 62
    assert all(each >= now for each in minutely.planned)
    assert (2, 1, 2) == (found.due, len(short.lanes), short.due)


def test_of_what_is_due_each_second_a_thousand_are_told(engine: sa.Engine):
    """And that there may be more."""
    now = get_now(engine)
    polls = {"run_task": {"name": "shop.poll"}}
    post(engine, operations=polls, when={"every": "PT1S"})

    (lane,) = ask(engine, since=now, until=now + timedelta(hours=6)).lanes

    assert "1,000 or more planned" == lane.tell_due()


def test_what_will_overlap_is_foreseen(engine: sa.Engine):
    """If a run takes as long as it usually does."""
    now = get_now(engine)
    post(engine, uid="daily", when={"cron_rule": "*/5 * * * *"})
    begin = now - timedelta(minutes=30)
    ran: dict[str, Any] = {"started_at": begin, "finished_at": begin + 7 * MINUTE}
    id_ = put(engine, occurrence=begin, recorded_at=begin, state=_S.SUCCEEDED, **ran)
    add_step(engine, id_, begin, begin + 7 * MINUTE)

    (lane,) = ask(
        engine, since=now - timedelta(hours=1), until=now + timedelta(hours=1)
    ).lanes

    assert len(lane.planned) - 1 == lane.too_close > 0


def test_runs_too_close_to_be_told_apart_are_one(engine: sa.Engine):
    """From the first one's beginning to the last one's end; success hides none."""
    for number in range(7):
        add(engine, number, 0.5, _S.FAILED if number == 3 else _S.SUCCEEDED)
    add(engine, 12, 1, _S.MISSED)

    (lane,) = ask(engine, until=MONDAY + timedelta(minutes=6 * PARTS)).lanes

    assert [
        (_S.SUCCEEDED, MONDAY, MONDAY + 5.5 * MINUTE),
        (_S.FAILED, MONDAY + 3 * MINUTE, MONDAY + 3.5 * MINUTE),
        (_S.SUCCEEDED, MONDAY + 6 * MINUTE, MONDAY + 6.5 * MINUTE),
        (_S.MISSED, at("00:12"), at("00:12")),
    ] == [*lane.runs]
    assert 8 == lane.count


def test_what_is_ahead_has_no_runs(engine: sa.Engine):
    """Whatever is under way now."""
    add(engine, 0, None, _S.RUNNING)
    tomorrow = get_now(engine) + timedelta(days=1)

    found = ask(engine, since=tomorrow, until=tomorrow + timedelta(hours=1))

    assert ([], 0) == (found.lanes, found.ran)


def test_only_what_was_asked_for_is_shown(engine: sa.Engine):
    """An app, a queue: of the past as of what is due."""
    now = get_now(engine)
    add(engine, 1, action_uid="a")
    add(engine, 1, action_uid="b", queue=Queue.HEAVY)
    add(engine, 1, action_uid="c", app="books")
    post(engine, "books", name="due", when={"cron_rule": "* * * * *"})

    def get_uids(**whose: Any) -> set[str]:
        return {each.uid for each in ask(engine, whose=Whose(**whose)).lanes}

    def count_due(**whose: Any) -> int:
        until = now + timedelta(hours=1)
        return ask(engine, since=now, until=until, whose=Whose(**whose)).due

    assert {"a", "b", "c"} == get_uids()
    assert {"a", "b"} == get_uids(app="app")
    assert {"b"} == get_uids(queue=Queue.HEAVY)
    assert (1, 0, 0) == (
        count_due(),
        count_due(app="app"),
        count_due(queue=Queue.HEAVY),
    )
