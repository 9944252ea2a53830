"""What may be sent, by what the database said and what it does not know yet."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from models.database.transaction import Answer
from models.operation_state import Queue
from operations.sending.order import Message, Sendable, find_back_lane
from tests.scheduling import MONDAY, SECOND


def make_row(number: int, **changes: Any) -> tuple[object, ...]:
    """Return the row of an operation, *number* seconds younger than the first."""
    values: dict[str, object] = {
        "id": UUID(int=number),
        "queue": "quick",
        "triggered_by": "a test",
        "attempt": 0,
        "send_at": MONDAY + number * SECOND,
        "app": "app",
        "trigger": "schedule",
        "line": None,
        **changes,
    }
    return tuple(values.values())


def make_sendable(
    *rows: tuple[object, ...],
    share: int = 0,
    under_way: list[tuple[str, str, int]] | None = None,
) -> Sendable:
    """Return what the database answered."""
    counts = None if under_way is None else Answer(under_way, len(under_way))
    return Sendable(share, Answer(rows, len(rows)), counts)


def choose(sendable: Sendable, handed_over: list[Message] | None = None) -> list[int]:
    """Return the numbers of the operations that may be sent."""
    messages = sendable.choose(handed_over or [])
    return [message.id.int for message in messages]


def test_what_the_broker_has_is_not_sent_again():
    """Though the database calls it pending still."""
    sendable = make_sendable(*map(make_row, range(3)))
    messages = sendable.choose()

    assert [2] == choose(sendable, messages[:2])
    assert [] == choose(sendable, messages)


@pytest.mark.parametrize(
    ("first", "second", "is_sent"),
    [
        ({"queue": "heavy"}, {"queue": "heavy"}, False),
        ({"queue": "heavy"}, {"queue": "heavy", "app": "other"}, True),
        ({"queue": "heavy"}, {"queue": "quick"}, True),
        ({"queue": "quick"}, {"queue": "heavy"}, True),
    ],
)
def test_what_the_broker_has_occupies_the_staging_of_its_app(
    first: dict[str, Any], second: dict[str, Any], *, is_sent: bool
):
    """The same as if both were found together."""
    rows = make_row(1, **first), make_row(2, **second)
    before = make_sendable(rows[0]).choose()

    assert [2][: int(is_sent)] == choose(make_sendable(*rows), before)
    assert [1, 2][: 1 + is_sent] == choose(make_sendable(*rows))


@pytest.mark.parametrize(
    ("changes", "lanes"),
    [
        ({}, [0, 1]),
        ({"app": "other"}, [0, 0]),
        ({"trigger": "manual"}, [0, 0]),
        ({"queue": "heavy"}, [0, 0]),
        ({"trigger": "backfill"}, [0, 0]),
    ],
    ids=str,
)
def test_what_the_broker_has_takes_a_place_of_its_apps_share(
    changes: dict[str, Any], lanes: list[int]
):
    """
    One of three is under way, one with the broker: one place is left. A run by hand has
    places of its own, and a backfill, which goes behind, takes none.
    """
    counts = [("app", "schedule", 1)]
    before = make_sendable(make_row(1, **changes), share=3, under_way=counts).choose()
    sendable = make_sendable(make_row(2), make_row(3), share=3, under_way=counts)

    messages = sendable.choose(before)

    behind = find_back_lane("app")
    assert [lane and behind for lane in lanes] == [each.lane for each in messages]


def test_what_is_with_the_broker_in_a_lane_behind_takes_no_place():
    """It waits behind itself already."""
    before = [Message(UUID(int=9), Queue.QUICK, "", 0, lane=3, app="app")]

    messages = make_sendable(make_row(1), share=1, under_way=[]).choose(before)

    assert [0] == [message.lane for message in messages]
