"""Requests that are repeated with the same Idempotency-Key, on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import idempotency_keys
from models.errors import UsageError
from serving.access.repeats import (
    LONGEST_BODY,
    LONGEST_KEY,
    Fresh,
    OtherBody,
    Outcome,
    Repeated,
    StillRunning,
    abandon,
    begin,
    finish,
)
from tests.database import execute, race

ME = "key abc"
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def start(
    engine: sa.Engine, key: str = "k", request: str = "digest", owner: str = ME
) -> Outcome:
    return begin(engine, owner, key, request)


def start_fresh(engine: sa.Engine, key: str = "k") -> Fresh:
    outcome = start(engine, key)
    assert isinstance(outcome, Fresh)  # nobody used the key before
    return outcome


def answer(engine: sa.Engine, fresh: Fresh, body: str = '{"id": 1}') -> bool:
    return finish(engine, fresh, status=201, headers={"location": "/x"}, body=body)


def age(engine: sa.Engine, by: timedelta) -> None:
    """Let the requests have begun so long ago: the databases have real clocks."""
    execute(engine, sa.update(idempotency_keys).values(created_at=db_now(-by)))


def test_first_answer_is_given_again(engine: sa.Engine):
    won = answer(engine, start_fresh(engine))

    assert won
    assert Repeated(201, {"location": "/x"}, '{"id": 1}') == start(engine)


def test_key_that_was_used_for_something_else_is_told_so(engine: sa.Engine):
    """Whether or not the first request is over."""
    fresh = start_fresh(engine)
    meanwhile = start(engine, request="other")
    answer(engine, fresh)

    assert OtherBody() == meanwhile == start(engine, request="other")


def test_keys_of_others_are_others(engine: sa.Engine):
    """Two callers may choose the same key."""
    answer(engine, start_fresh(engine))

    assert isinstance(start(engine, owner="key other"), Fresh)


def test_failed_request_may_be_repeated(engine: sa.Engine):
    """What failed through our fault is done when it is asked for again."""
    abandon(engine, start_fresh(engine))

    assert isinstance(start(engine), Fresh)


def test_request_whose_process_died_is_taken_over(engine: sa.Engine):
    """After a minute, by one of those who ask again, whatever the body."""
    start_fresh(engine)
    age(engine, 5 * SECOND)
    early = start(engine)
    age(engine, 61 * SECOND)
    first, second = start(engine, request="other"), start(engine, request="other")

    assert StillRunning() == early
    assert isinstance(first, Fresh)
    assert StillRunning() == second


def test_whoever_was_taken_over_answers_for_itself_alone(engine: sa.Engine):
    """It stores nothing, and removes nothing, of its successor."""
    frozen = start_fresh(engine)
    age(engine, 61 * SECOND)
    successor = start_fresh(engine)

    assert not answer(engine, frozen, '{"id": "frozen"}')
    abandon(engine, frozen)
    assert StillRunning() == start(engine)
    assert answer(engine, successor)
    assert not answer(engine, successor, '{"id": "again"}')
    assert Repeated(201, {"location": "/x"}, '{"id": 1}') == start(engine)


def test_answer_is_forgotten_after_a_day(engine: sa.Engine):
    """Then the key is new, even if maintenance has not run."""
    answer(engine, start_fresh(engine))
    age(engine, 23 * HOUR)
    early = start(engine)
    age(engine, 25 * HOUR)

    assert isinstance(early, Repeated)
    fresh = start(engine, request="other")
    assert isinstance(fresh, Fresh)
    assert StillRunning() == start(engine, request="other")


def test_long_answers_are_remembered_without_their_body(engine: sa.Engine):
    """That the work was done is what matters; the table stays small."""
    answer(engine, start_fresh(engine, "long"), "x" * (LONGEST_BODY + 1))
    answer(engine, start_fresh(engine, "longest"), "x" * LONGEST_BODY)

    assert Repeated(201, {"location": "/x"}, None) == start(engine, "long")
    longest = start(engine, "longest")
    assert isinstance(longest, Repeated)
    assert "x" * LONGEST_BODY == longest.body


@pytest.mark.parametrize("key", ["", "x" * (LONGEST_KEY + 1), "Zoë", "a\nb", "a\0b"])
def test_bad_keys_are_refused(sqlite_engine: sa.Engine, key: str):
    """Before the database sees them."""
    with pytest.raises(UsageError, match="1 to 255 printable characters"):
        start(sqlite_engine, key)
    assert isinstance(start(sqlite_engine, "x" * LONGEST_KEY), Fresh)


@pytest.mark.parametrize("crashed", [False, True], ids=["first", "successor"])
def test_one_of_many_does_the_work(engine: sa.Engine, *, crashed: bool):
    """The database decides, for requests that come in the same instant."""
    if crashed:
        start_fresh(engine)
        age(engine, 61 * SECOND)

    outcomes = race(5, lambda _number: start(engine))

    assert 1 == sum(isinstance(each, Fresh) for each in outcomes)
    assert 4 == outcomes.count(StillRunning())
