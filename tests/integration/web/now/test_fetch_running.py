"""What runs at this moment, when it may end, and what comes next."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tests.database import read_by
from tests.scheduling import MINUTE, add_app, add_steps, get_now, post, put
from web.now.fetch_running import (
    NextOccurrence,
    UnderWay,
    fetch_coming,
    fetch_under_way,
)


def fetch(engine: sa.Engine) -> list[UnderWay]:
    return read_by(engine, fetch_under_way)


def fetch_next(engine: sa.Engine, app: str | None = None) -> list[NextOccurrence]:
    return read_by(engine, fetch_coming, app=app)


def test_running_operation_has_step_and_end(engine: sa.Engine):
    """From what its former runs took."""
    now = get_now(engine)
    for number in range(3):
        ran: dict[str, Any] = {
            "state": "succeeded",
            "started_at": now - 60 * MINUTE,
            "finished_at": now - 52 * MINUTE,
        }
        done = put(engine, number, **ran)
        add_steps(engine, done, {"name": "refresh", **ran})
    claim = {"attempt": 1, "worker": "w", "claim_token": UUID(int=9)}
    id_ = put(engine, 9, state="running", started_at=now - 2 * MINUTE, **claim)
    began = now - 2 * MINUTE
    first = {"name": "refresh", "state": "running", "started_at": began}
    add_steps(engine, id_, first, {"name": "publish", "state": "skipped"})

    (each,) = fetch(engine)

    assert (id_, "refresh", 1, 1) == (
        each.id,
        each.step,
        each.step_number,
        each.step_count,
    )
    assert (8 * MINUTE, 3) == (each.usual.run, each.usual.runs)
    assert began + 8 * MINUTE == each.eta


def test_retry_says_when_it_comes_again(engine: sa.Engine):
    """It is pending after an attempt that failed; a new one is not listed."""
    again = get_now(engine) + MINUTE
    put(engine, 0, attempt=0)
    id_ = put(engine, 1, attempt=1, send_at=again, error="refresh: 503", reason="x")

    (each,) = fetch(engine)

    assert (id_, True, again, "refresh: 503") == (
        each.id,
        each.is_retrying,
        each.again_at,
        each.error,
    )


def test_next_occurrences_are_of_all_actions(engine: sa.Engine):
    """One that is due each minute has as many as come before the others."""
    add_app(engine)
    post(engine, name="minutely", when={"cron_rule": "* * * * *"})
    post(engine, name="hourly", when={"cron_rule": "0 * * * *"})

    add_app(engine, "other")

    found = fetch_next(engine)

    dues = [each.due_at for each in found]
    assert (10, sorted(dues)) == (len(found), dues)
    assert {"minutely"} <= {each.name for each in found}
    assert [] == fetch_next(engine, "other")


def test_what_is_due_each_second_is_told_once(engine: sa.Engine):
    """It has no place for others otherwise."""
    add_app(engine)
    post(engine, name="hourly", when={"cron_rule": "0 * * * *"})
    polls = {"run_task": {"name": "shop.poll"}}
    post(engine, name="each second", operations=polls, when={"every": "PT1S"})
    post(engine, name="each 25 s", operations=polls, when={"every": "PT25S"})

    found = fetch_next(engine)

    first = {each.name: each.in_minute for each in reversed(found)}
    assert {"each second": 60, "each 25 s": 3, "hourly": 1} == first
    assert 8 == sum(each.name == "hourly" for each in found)
