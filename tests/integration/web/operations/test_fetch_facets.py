"""What each filter of the list of operations would find."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from models.operation_state import OperationState, Queue, Reason, Trigger
from operations.list_operations import fetch_operations
from operations.operation_filter import OperationFilter
from operations.reasons import make_cause
from tests.database import read_by
from tests.scheduling import add_mails, add_revision, edit, make_operation, record_all
from web.operations.fetch_facets import Facets, count_facets

ALL = [make_operation(number) for number in range(6)]
FAILED = frozenset({OperationState.FAILED})


@pytest.fixture
def six(engine: sa.Engine) -> sa.Engine:
    """Give three that failed, two of one cause, one between attempts, two others."""
    add_revision(engine)
    record_all(engine, *ALL)
    failed = {"state": "failed", "reason": "step failed: refresh"}
    edit(engine, ALL[0].id, **failed, error="refresh: 3 of 100%_full in 'a'")
    edit(engine, ALL[1].id, **failed, error="refresh: 17 of 100%_full in 'b'\nmore")
    edit(engine, ALL[2].id, **failed, error="refresh: 3 of 100xyfull in 'a'")
    edit(engine, ALL[3].id, reason="worker lost", queue="heavy")
    edit(engine, ALL[4].id, state="succeeded", trigger="manual")
    add_mails(engine, ALL[4].id, {"ann": "uncertain"})
    return engine


def count(engine: sa.Engine, *, most: int = 100, **wanted: Any) -> Facets:
    """Return the facets of the operations that match."""
    return read_by(engine, count_facets, OperationFilter(**wanted), most=most)


def find(engine: sa.Engine, **wanted: Any) -> list[int]:
    """Return the numbers of the operations that match."""
    numbers = {each.id: number for number, each in enumerate(ALL)}
    part = read_by(engine, fetch_operations, OperationFilter(**wanted))
    return [numbers[row.id] for row in part.entries]


def test_every_value_is_counted(six: sa.Engine):
    """Each state, whether or not there is one; and what is more than a state."""
    facets = count(six)

    assert 6 == facets.total == sum(facets.states.values())
    assert (3, 1, 2, 0) == (
        facets.states[OperationState.FAILED],
        facets.states[OperationState.SUCCEEDED],
        facets.states[OperationState.PENDING],
        facets.states[OperationState.MISSED],
    )
    assert (1, 1) == (facets.retrying, facets.uncertain)
    assert {Reason.STEP_FAILED: 3, Reason.WORKER_LOST: 1} == facets.reasons
    assert {Queue.QUICK: 5, Queue.HEAVY: 1} == facets.queues
    assert {Trigger.SCHEDULE: 5, Trigger.MANUAL: 1} == facets.triggers
    assert {"app": 6} == facets.apps
    assert facets.since is None


def test_number_beside_a_value_is_how_long_its_list_would_be(six: sa.Engine):
    """The filter itself does not narrow its own values, the others do."""
    facets = count(six, states=FAILED, queue=Queue.HEAVY)

    assert 0 == facets.total
    assert {Queue.QUICK: 3} == facets.queues
    assert 1 == facets.states[OperationState.PENDING]
    assert 0 == facets.states[OperationState.FAILED]


@pytest.mark.parametrize(
    "wanted",
    [
        {"states": FAILED},
        {"is_retrying": True},
        {"is_uncertain": True},
        {"reason": Reason.STEP_FAILED, "text": "xyfull"},
        {"cause": make_cause("step failed: refresh", "refresh: 5 of 100%_full in 'c'")},
        {"trigger": Trigger.MANUAL},
        {"since": ALL[2].occurrence, "until": ALL[5].occurrence},
    ],
)
def test_total_is_the_length_of_the_list(six: sa.Engine, wanted: dict[str, Any]):
    """Whatever is asked."""
    found = find(six, **wanted)
    facets = count(six, **wanted)

    assert found
    if "is_uncertain" in wanted:
        assert len(found) == facets.uncertain
    else:
        assert len(found) == facets.total


def test_only_the_latest_are_looked_at(six: sa.Engine):
    """And since when that is, is told."""
    facets = count(six, most=2)

    assert 2 == facets.total
    assert facets.since is not None


def test_same_cause_has_other_numbers_and_names(six: sa.Engine):
    """A percent sign in an error is no pattern."""
    cause = make_cause("step failed: refresh", "refresh: 5 of 100%_full in 'c'")

    assert [1, 0] == find(six, cause=cause)


def test_between_attempts_or_uncertain(six: sa.Engine):
    """Each is a filter of its own."""
    assert [3] == find(six, is_retrying=True)
    assert [4] == find(six, is_uncertain=True)
