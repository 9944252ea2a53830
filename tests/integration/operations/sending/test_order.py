"""From the table to the broker and back: what is sent, in which order, and again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

import operations.rescue
from models.back_off import LOSS_DELAY
from models.database.engine import reading, writing
from models.database.tables import operation_steps
from models.database.transaction import AtOnce
from models.decision import NewOperation
from models.operation_state import OperationState, Overlap, Queue, StepState
from operations.cancel_and_retry import cancel, reopen
from operations.claiming.claim import (
    claim_operation,
    finish,
    give_back,
    guard,
    postpone,
)
from operations.rescue import (
    LOST_AFTER,
    RESEND_AFTER,
    reclaim_lost_workers,
    resend_lost_messages,
)
from operations.running.step_records import prepare_steps, start_step
from operations.sending import order
from operations.sending.order import Message, ask_sendable, fetch_sendable, mark_sent
from tests.database import write_by
from tests.scheduling import (
    HOUR,
    SECOND,
    add_revision,
    edit,
    expire,
    get,
    get_now,
    make_operation,
    must_claim,
    put,
    record_all,
)

HEAVY: dict[str, Any] = {"queue": Queue.HEAVY}


def fetch(engine: sa.Engine, limit: int = 100) -> list[Message]:
    return write_by(engine, fetch_sendable, limit=limit)


def fetch_ids(engine: sa.Engine, limit: int = 100) -> list[UUID]:
    return [message.id for message in fetch(engine, limit)]


def mark(engine: sa.Engine, *messages: Message) -> int:
    """Mark *messages*, and return how many of them are queued then."""
    with writing(engine) as connection:
        mark_sent(AtOnce(connection), messages)
    states = [get(engine, message.id).state for message in messages]
    return states.count(OperationState.QUEUED)


def record_aged(engine: sa.Engine, *new: NewOperation) -> list[UUID]:
    """Record *new*, each a second older than the next, to be sent in that order."""
    record_all(engine, *new)
    now = get_now(engine)
    for age, each in enumerate(reversed(new), start=1):
        edit(engine, each.id, send_at=now - age * SECOND)
    return [each.id for each in new]


def test_the_oldest_is_sent_first(engine: sa.Engine):
    """Order is by the time to be sent, then by occurrence; the limit cuts the end."""
    ids = record_aged(engine, *(make_operation(n) for n in (3, 1, 2)))

    assert ids == fetch_ids(engine)
    assert ids[:2] == fetch_ids(engine, 2)


def test_occurrences_recorded_together_keep_their_order(engine: sa.Engine):
    """Of one tick the earlier occurrence is sent first."""
    made = [make_operation(n) for n in range(9)]
    record_all(engine, *made)
    now = get_now(engine)
    for each in made:
        edit(engine, each.id, send_at=now, recorded_at=now)

    assert [each.id for each in made] == fetch_ids(engine)


def test_apps_take_turns(engine: sa.Engine):
    """Of what waits equally long, such as of one tick, however many one app has."""
    apps = ["crowd"] * 4 + ["few"] * 2
    made = [make_operation(number, app=app) for number, app in enumerate(apps)]
    record_all(engine, *made)
    now = get_now(engine)
    for each in made:
        edit(engine, each.id, send_at=now, recorded_at=now)

    found = fetch(engine)

    assert [0, 4, 1, 5, 2, 3] == [[m.id for m in made].index(e.id) for e in found]


def test_message_says_where_it_goes(engine: sa.Engine):
    """The task id is the id of the operation; the queue decides the task."""
    made = make_operation(**HEAVY)
    record_all(engine, made)

    [sent] = fetch(engine)
    assert (made.id, Queue.HEAVY, made.triggered_by, 0) == sent[:4]


def record_in_each_state(engine: sa.Engine, **values: Any) -> dict[str, UUID]:
    """Record an operation in each state, with these values; return their ids."""
    made = [make_operation(number) for number, _ in enumerate(OperationState)]
    record_all(engine, *made)
    ids = {
        state.value: each.id for state, each in zip(OperationState, made, strict=True)
    }
    for state, id_ in ids.items():
        edit(engine, id_, state=state, **values)
    return ids


def test_only_what_is_pending_is_sent(engine: sa.Engine):
    """What is queued, running or final has no business in the outbox."""
    ids = record_in_each_state(engine)

    assert [ids["pending"]] == fetch_ids(engine)


def test_retry_is_sent_when_its_time_has_come(engine: sa.Engine):
    """``send_at`` in the future holds a row back."""
    made = put(engine, send_at=get_now(engine) + HOUR)
    assert [] == fetch(engine)

    edit(engine, made, send_at=get_now(engine) - SECOND)

    assert [made] == fetch_ids(engine)


def test_one_heavy_operation_of_an_app_is_sent(engine: sa.Engine):
    """The others follow when it is final; other apps and quick ones do not wait."""
    ids = record_aged(
        engine,
        make_operation(1, **HEAVY),
        make_operation(2, action_uid="other action", **HEAVY),
        make_operation(3, app="other", **HEAVY),
        make_operation(4),
    )
    messages = fetch(engine)
    assert [ids[0], ids[2], ids[3]] == [message.id for message in messages]

    mark(engine, *messages)
    assert [] == fetch(engine)
    edit(engine, ids[0], state="running", claim_token=uuid4())
    assert [] == fetch(engine)
    edit(engine, ids[0], state="succeeded", claim_token=None)

    assert [ids[1]] == fetch_ids(engine)


def test_queued_overlaps_are_sent_one_at_a_time(engine: sa.Engine):
    """The next of an action and user goes when the former is over."""
    queue: dict[str, Any] = {"overlap": Overlap.QUEUE}
    ids = record_aged(
        engine,
        make_operation(1, **queue),
        make_operation(2, **queue),
        make_operation(3, user_id="ann", **queue),
        make_operation(4, user_id="ann", **queue),
        make_operation(5, user_id="bob", **queue),
    )
    messages = fetch(engine)
    assert [ids[0], ids[2], ids[4]] == [message.id for message in messages]

    mark(engine, *messages)
    assert [] == fetch(engine)
    edit(engine, ids[0], state="failed")

    assert [ids[1]] == fetch_ids(engine)


def test_lines_are_looked_at_in_turn(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """A look passes so many lines; the next one goes on, and the last begins anew."""
    monkeypatch.setattr(order, "LINES_AT_ONCE", 2)
    made = [
        make_operation(n, action_uid=f"line{n // 2}", overlap=Overlap.QUEUE)
        for n in range(10)
    ]
    record_aged(engine, *made)
    looks, after = [], ""
    for _ in range(4):
        with writing(engine) as connection:
            found = ask_sendable(AtOnce(connection), limit=100, after=after)
        looks.append([message.id for message in found.choose()])
        after = found.last_line

    first = [made[n].id for n in (0, 2, 4, 6, 8)]
    assert [first[:2], first[2:4], first[4:], first[:2]] == looks


def test_those_that_wait_do_not_hide_those_that_need_not(engine: sa.Engine):
    """More waiting heavy operations than fit in a batch delay nobody else."""
    ids = record_aged(
        engine,
        *(make_operation(n, **HEAVY) for n in range(5)),
        make_operation(9, app="other"),
    )
    sent = []
    while messages := fetch(engine, 3):
        mark(engine, *messages)
        sent += [message.id for message in messages]

    assert [ids[0], ids[5]] == sent


def test_sent_message_is_queued_and_dated(engine: sa.Engine):
    """The date is the database's."""
    made = put(engine)

    assert 1 == mark(engine, *fetch(engine))

    row = get(engine, made)
    assert ("queued", 1) == (row.state, row.sends)
    assert row.recorded_at <= row.sent_at <= get_now(engine)


def test_worker_may_be_faster_than_the_mark(engine: sa.Engine):
    """What was claimed or finished before it could be marked stays so, with a date."""
    add_revision(engine)
    done, runs = make_operation(1), make_operation(2)
    record_all(engine, done, runs)
    messages = fetch(engine)
    must_claim(engine, runs.id)
    claim = must_claim(engine, done.id)
    write_by(engine, finish, claim, OperationState.SUCCEEDED)

    assert 0 == mark(engine, *messages)

    assert ["running", "succeeded"] == [get(engine, i.id).state for i in (runs, done)]
    assert [1, 1] == [get(engine, i.id).sends for i in (done, runs)]
    assert get(engine, done.id).sent_at is not None


def test_a_second_copy_that_was_overtaken_is_not_counted(engine: sa.Engine):
    """It is the first that was claimed: that one's date says how long it waited."""
    add_revision(engine)
    made = put(engine)
    mark(engine, *fetch(engine))
    sent_at = get_now(engine) - RESEND_AFTER - SECOND
    edit(engine, made, state="pending", sent_at=sent_at)
    copy = fetch(engine)
    must_claim(engine, made)

    assert 0 == mark(engine, *copy)

    row = get(engine, made)
    assert ("running", sent_at, 1) == (row.state, row.sent_at, row.sends)


def test_next_attempt_is_not_marked_by_the_message_of_the_last(engine: sa.Engine):
    """A worker failed and put it back before the mark: it is still to send."""
    made = put(engine)
    messages = fetch(engine)
    edit(engine, made, attempt=1)

    assert 0 == mark(engine, *messages)

    assert "pending" == get(engine, made).state
    assert [1] == [message.attempt for message in fetch(engine)]


def test_operation_given_back_before_the_mark_is_found_again(engine: sa.Engine):
    """Its message is gone, though marked as sent: an empty queue tells."""
    add_revision(engine)
    made = put(engine)
    messages = fetch(engine)
    claim = must_claim(engine, made)
    give_back(engine, claim)
    mark(engine, *messages)
    if get(engine, made).state == "queued":
        edit(engine, made, sent_at=get_now(engine) - LOST_AFTER)
        resend(engine, Queue.QUICK)

    assert [made] == fetch_ids(engine)


def test_many_lost_messages_are_found_in_parts(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """The longest sent first: each part has to fit into the deadline of a statement."""
    monkeypatch.setattr(operations.rescue, "RESENT_AT_ONCE", 2)
    made = [make_operation(number) for number in range(3)]
    record_all(engine, *made)
    for number, each in enumerate(made):
        sent_at = get_now(engine) - 2 * LOST_AFTER - number * SECOND
        edit(engine, each.id, state="queued", sent_at=sent_at, sends=1)

    assert 2 == resend(engine, Queue.QUICK)
    assert {made[1].id, made[2].id} == set(fetch_ids(engine))
    assert [1, 0] == [resend(engine, Queue.QUICK) for _ in range(2)]


def reclaim(engine: sa.Engine) -> tuple[int, int]:
    return write_by(engine, reclaim_lost_workers)


def resend(engine: sa.Engine, *empty: Queue) -> int:
    return write_by(engine, resend_lost_messages, empty_queues=empty)


def test_lost_worker_is_replaced_twice_then_given_up(engine: sa.Engine):
    """The pause doubles; after three attempts the operation failed, and says why."""
    add_revision(engine)
    made = put(engine)
    for attempt in (1, 2):
        must_claim(engine, made)
        assert (0, 0) == reclaim(engine)
        expire(engine, made)
        before = get_now(engine)

        assert (1, 0) == reclaim(engine)

        row = get(engine, made)
        assert ("pending", "worker lost", attempt, None) == (
            row.state,
            row.reason,
            row.attempt,
            row.claim_token,
        )
        pause = LOSS_DELAY * 2 ** (attempt - 1)
        assert before <= row.send_at - pause <= get_now(engine)
        assert claim_operation(engine, made, worker="w") is None
        edit(engine, made, send_at=before)
    must_claim(engine, made)
    expire(engine, made)

    assert (0, 1) == reclaim(engine)

    row = get(engine, made)
    assert ("failed", "worker lost", 3) == (row.state, row.reason, row.attempt)
    assert row.finished_at is not None
    assert (0, 0) == reclaim(engine)


def test_steps_of_an_operation_given_up_are_final_too(engine: sa.Engine):
    """Nothing is said to run in an operation that failed."""
    # its claim begins no steps, so that they are those below
    add_revision(engine, when={"after": "instance.user.last_seen", "delay": "PT1H"})
    made = put(engine)
    claim = must_claim(engine, made)
    with writing(engine) as connection:
        guard(connection, claim)
        prepare_steps(connection, claim, ["refresh", "publish"])
        start_step(connection, claim, "refresh")
    edit(engine, made, attempt=3, lease_expires_at=get_now(engine) - SECOND)
    other = put(engine, 1)
    running = must_claim(engine, other)
    write_by(engine, prepare_steps, running, ["refresh"])

    reclaim(engine)

    with reading(engine) as connection:
        states = connection.execute(
            sa.select(operation_steps.c.state).order_by(
                operation_steps.c.operation_id == other, operation_steps.c.position
            )
        ).scalars()
        assert [StepState.FAILED, StepState.SKIPPED, StepState.RUNNING] == list(states)


@pytest.mark.parametrize(
    ("age", "sends", "is_empty", "lost"),
    [
        (LOST_AFTER - SECOND, 1, True, False),
        (LOST_AFTER + SECOND, 1, True, True),
        (LOST_AFTER + SECOND, 3, True, True),
        (LOST_AFTER + SECOND, 1, False, False),
        (HOUR - SECOND, 1, False, False),
        (HOUR + SECOND, 1, False, True),
        (HOUR + SECOND, 2, False, False),
        (2 * HOUR + SECOND, 2, False, True),
        (2 * HOUR + SECOND, 3, False, False),
        (4 * HOUR + SECOND, 3, False, True),
        (4 * HOUR + SECOND, 9, False, True),
    ],
)
def test_unclaimed_message_is_given_up_in_time(
    engine: sa.Engine, age: timedelta, sends: int, *, is_empty: bool, lost: bool
):
    """Two minutes if the queue is empty, else one, two and four hours."""
    made = put(engine)
    mark(engine, *fetch(engine))
    edit(engine, made, sent_at=get_now(engine) - age, sends=sends)

    resent = resend(engine, *([Queue.QUICK] if is_empty else [Queue.HEAVY]))

    assert int(lost) == resent
    assert ("pending" if lost else "queued") == get(engine, made).state
    assert ([made] if lost else []) == fetch_ids(engine)


@pytest.mark.parametrize(
    ("lead", "queue", "lost"),
    [
        (LOST_AFTER + SECOND, Queue.QUICK, True),
        (LOST_AFTER - SECOND, Queue.QUICK, False),
        (LOST_AFTER + SECOND, Queue.HEAVY, False),
    ],
)
def test_message_is_lost_if_one_sent_minutes_later_runs(
    engine: sa.Engine, lead: timedelta, queue: Queue, *, lost: bool
):
    """Queues are first in, first out: no need to wait until a busy one is empty."""
    add_revision(engine)
    made, later = make_operation(), make_operation(1, queue=queue)
    record_all(engine, made, later)
    mark(engine, *fetch(engine))
    sent_at = get_now(engine) - LOST_AFTER - 30 * SECOND
    edit(engine, made.id, sent_at=sent_at)
    edit(engine, later.id, sent_at=sent_at + lead)
    assert 0 == resend(engine)
    must_claim(engine, later.id)

    assert int(lost) == resend(engine)

    assert ("pending" if lost else "queued") == get(engine, made.id).state
    assert "running" == get(engine, later.id).state


def test_second_copy_of_a_message_overtakes_nothing(engine: sa.Engine):
    """Its first copy is what runs, ahead of all that was sent between the two."""
    add_revision(engine)
    made, between = make_operation(), make_operation(1)
    record_all(engine, made, between)
    mark(engine, *fetch(engine))
    edit(engine, made.id, sent_at=get_now(engine) - RESEND_AFTER - SECOND)
    edit(engine, between.id, sent_at=get_now(engine) - RESEND_AFTER / 2)
    assert 1 == resend(engine)
    mark(engine, *fetch(engine))
    must_claim(engine, made.id)

    assert 0 == resend(engine)

    assert "queued" == get(engine, between.id).state


def test_only_queued_messages_can_be_lost(engine: sa.Engine):
    """A message that was claimed, or is not sent, is nobody's loss."""
    long_ago = get_now(engine) - 9 * HOUR
    ids = record_in_each_state(engine, sends=1, sent_at=long_ago)

    assert 1 == resend(engine, *Queue)

    assert {ids["queued"], ids["pending"]} == set(fetch_ids(engine))


def test_what_was_put_back_before_it_was_marked_is_still_to_be_sent(engine: sa.Engine):
    """A worker was faster than the mark, and postponed it: nothing carries it."""
    add_revision(engine)
    made = put(engine)
    sent = fetch(engine)
    claim = must_claim(engine, made)
    with writing(engine) as connection:
        guard(connection, claim)
        postpone(connection, claim, delay=HOUR, reason="r", error="e")

    assert 0 == mark(engine, *sent)
    row = get(engine, made)
    assert (OperationState.PENDING, 0) == (row.state, row.attempt)


def test_retried_operation_is_no_witness(engine: sa.Engine):
    """Its first copy is ahead of all that was sent since."""
    add_revision(engine)
    waits, again = make_operation(1), make_operation(2)
    record_all(engine, waits, again)
    mark(engine, *fetch(engine))
    edit(engine, waits.id, sent_at=get_now(engine) - 2 * LOST_AFTER)
    with writing(engine) as connection:
        assert cancel(connection, again.id, reason="r")
        assert reopen(connection, again.id)
    mark(engine, *fetch(engine))
    must_claim(engine, again.id)

    assert 0 == resend(engine)
