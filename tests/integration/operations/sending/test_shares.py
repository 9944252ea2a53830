"""One app cannot hold a queue: what exceeds its share of the slots lines up behind."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import reading, writing
from models.database.transaction import AtOnce
from models.operation_state import OperationState, Queue, Trigger
from operations.claiming.claim import claim_operation, finish
from operations.rescue import LOST_AFTER, resend_lost_messages
from operations.sending.order import (
    fetch_sendable,
    fetch_share,
    find_back_lane,
    mark_sent,
)
from tests.database import read_by, write_by
from tests.presence import give_sign, make_worker
from tests.scheduling import (
    SECOND,
    add_revision,
    edit,
    get_now,
    make_operation,
    must_claim,
    put,
    record_all,
    say_why,
)


def resend(engine: sa.Engine) -> int:
    return write_by(engine, resend_lost_messages, empty_queues=())


def record_of_sales(engine: sa.Engine, numbers: range, **fields: Any) -> list[UUID]:
    made = [make_operation(number, app="sales", **fields) for number in numbers]
    record_all(engine, *made)
    return [each.id for each in made]


def send(engine: sa.Engine, share: int, limit: int = 9) -> list[UUID]:
    """Send what may be sent, and mark it; return what that is."""
    with writing(engine) as connection:
        messages = fetch_sendable(connection, limit=limit, share=share)
        mark_sent(AtOnce(connection), messages)
    return [message.id for message in messages]


def fetch_lanes(engine: sa.Engine, share: int) -> dict[UUID, int]:
    messages = write_by(engine, fetch_sendable, limit=100, share=share)
    return {message.id: message.lane for message in messages}


def test_what_exceeds_the_share_lines_up_behind(engine: sa.Engine):
    """The first of an app have the first lane, others one that is always the same."""
    ids = record_of_sales(engine, range(5))

    lanes = fetch_lanes(engine, 2)

    assert [0, 0, *3 * [find_back_lane("sales")]] == sorted(lanes.values())
    assert set(ids) == set(lanes)


def test_what_is_under_way_counts_until_it_is_over(engine: sa.Engine):
    """Sent or running, it has its place; the next has one when it is final."""
    add_revision(engine)
    first, second, third = record_of_sales(engine, range(3))
    claim = must_claim(engine, *send(engine, 1, limit=1))
    waiting = {first, second, third} - {claim.operation_id}
    behind = find_back_lane("sales")
    assert dict.fromkeys(waiting, behind) == fetch_lanes(engine, 1)

    write_by(engine, finish, claim, OperationState.SUCCEEDED)

    assert [0, behind] == sorted(fetch_lanes(engine, 1).values())


def test_lane_is_kept_when_it_was_sent(engine: sa.Engine):
    """What went to a lane behind takes no place of the first lane."""
    record_of_sales(engine, range(2))
    send(engine, 1)
    record_of_sales(engine, range(2, 3))
    [lane] = fetch_lanes(engine, 2).values()

    assert 0 == lane


def test_people_come_before_the_schedule(engine: sa.Engine):
    """A manual run is first, in the first lane, whatever its app has to do."""
    ids = record_of_sales(engine, range(3))
    asked = put(engine, 3, app="sales", trigger=Trigger.MANUAL)

    lanes = fetch_lanes(engine, 1)

    assert [asked, *ids] == list(lanes)
    assert [0, 0] == [lanes[asked], lanes[ids[0]]]
    assert 0 != lanes[ids[1]]


def test_manual_runs_have_a_share_too(engine: sa.Engine):
    """Who asks for many by hand takes the slots of nobody."""
    record_of_sales(engine, range(4), trigger=Trigger.MANUAL)

    assert [0, *3 * [find_back_lane("sales")]] == sorted(
        fetch_lanes(engine, 1).values()
    )


def test_heavy_operations_have_one_lane(engine: sa.Engine):
    """Of them one runs at a time anyway."""
    record_of_sales(engine, range(2), queue=Queue.HEAVY)

    assert [0] == list(fetch_lanes(engine, 1).values())


def test_other_lane_is_no_witness(engine: sa.Engine):
    """Lanes take turns: what runs from another lane has overtaken nothing."""
    add_revision(engine)
    waits, runs = record_of_sales(engine, range(2))
    send(engine, 1)
    now = get_now(engine)
    edit(engine, waits, sent_at=now - 2 * LOST_AFTER, lane=1)
    edit(engine, runs, lane=0)
    claim_operation(engine, runs, worker="w")

    assert 0 == resend(engine)
    edit(engine, runs, lane=1)

    assert 1 == resend(engine)


def test_share_is_a_part_of_the_slots(engine: sa.Engine):
    """Of all workers that were seen lately and take the queue; at least one slot."""
    for queues, slots, age in (
        (["quick"], 8, 0),
        (["heavy", "quick"], 2, 60),
        (["heavy"], 16, 0),
        (["quick"], 32, 300),
    ):
        worker = make_worker(queues=queues, concurrency=slots)
        give_sign(engine, worker, age=age * SECOND)

    shares = [read_by(engine, fetch_share, part) for part in (0.5, 0.01, 1.0)]

    assert [5, 1, None] == shares


def test_share_without_workers_is_that_of_one(engine: sa.Engine):
    """Before the first has said how many slots it has."""
    assert 2 == read_by(engine, fetch_share, 0.5)


def test_what_lines_up_says_behind_how_many(engine: sa.Engine):
    """Of its own app, by when it was sent; the first lane waits for a worker."""
    first, second, third = record_of_sales(engine, range(3))
    send(engine, 1)
    now = get_now(engine)
    edit(engine, second, sent_at=now - 2 * SECOND)
    edit(engine, third, sent_at=now - SECOND)

    with reading(engine) as connection:
        told = [say_why(connection, each) for each in (first, second, third)]

    assert "its own app" not in told[0]
    assert "it waits behind 0 of its own app" in told[1]
    assert "it waits behind 1 of its own app" in told[2]
