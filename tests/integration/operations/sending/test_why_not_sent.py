"""What keeps an operation from being sent, told to people."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from models.database.engine import reading, writing
from models.operation_state import Overlap, Queue
from operations.cancel_and_retry import cancel, reopen
from operations.claiming.claim import claim_operation
from operations.sending.order import fetch_sendable
from operations.sending.why_not_sent import fetch_unsent, find_hindrances
from tests.scheduling import (
    REFRESH,
    add_revision,
    edit,
    get_now,
    make_operation,
    record_all,
)

FIRST, SECOND = (make_operation(n, queue=Queue.HEAVY) for n in (1, 2))
IN_ORDER = [make_operation(n, overlap=Overlap.QUEUE) for n in (1, 2)]
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _action(engine: sa.Engine) -> None:
    """Give what a claim joins."""
    add_revision(engine, operations=REFRESH)


def ask(engine: sa.Engine) -> list[str]:
    """Return what the operations wait for, in order."""
    ids = [FIRST.id, SECOND.id]
    with reading(engine) as connection:
        found = find_hindrances(connection, ids)
    return [found[each] for each in ids if each in found]


def test_what_may_be_sent_waits_for_nothing(engine: sa.Engine):
    """
    Then it is the leader, or the broker.
    """
    record_all(engine, FIRST)

    assert [] == ask(engine)


def test_another_heavy_operation_is_named(engine: sa.Engine):
    """
    One of an app at a time.
    """
    record_all(engine, FIRST, SECOND)
    claim_operation(engine, FIRST.id, worker="w")

    assert [f"heavy operation {FIRST.id} of the same app has not ended"] == ask(engine)


def test_the_former_run_is_named(engine: sa.Engine):
    """
    With ``overlap: queue``, one of an action and user at a time.
    """
    record_all(engine, *IN_ORDER)
    edit(engine, IN_ORDER[0].id, state="queued")

    expected = f"operation {IN_ORDER[0].id} of the same action has not ended"
    assert [expected] == ask(engine)


def test_the_time_of_the_next_attempt_is_named(engine: sa.Engine):
    """
    After a failure that may pass.
    """
    record_all(engine, FIRST)
    send_at = get_now(engine) + MINUTE
    edit(engine, FIRST.id, send_at=send_at)

    assert [f"it is to be sent at {send_at:%F %T}Z"] == ask(engine)


def test_a_worker_that_has_not_stopped_is_named(engine: sa.Engine):
    """
    Canceled and tried again.
    """
    record_all(engine, FIRST)
    claim_operation(engine, FIRST.id, worker="w")
    with writing(engine) as connection:
        cancel(connection, FIRST.id, reason="canceled")
        reopen(connection, FIRST.id)

    expected = "it was canceled and retried, and its former worker has not stopped yet"
    assert [expected] == ask(engine)


@pytest.mark.parametrize(
    "operations", [[FIRST], [FIRST, SECOND], IN_ORDER], ids=["one", "heavy", "queue"]
)
def test_it_agrees_with_the_sender(engine: sa.Engine, operations: list[object]):
    """
    What is said to be free is what the sender takes, one after the other.
    """
    record_all(engine, *operations)  # type: ignore[arg-type]  # operations they are
    edit(engine, FIRST.id, state="queued")
    with reading(engine) as connection:
        sendable = {m.id for m in fetch_sendable(connection, limit=10)}
        hindered = find_hindrances(connection, [FIRST.id, SECOND.id])

    assert set() == sendable
    assert len(operations) - 1 == len(hindered)


def test_only_what_could_have_been_sent_is_late(engine: sa.Engine):
    """
    What waits for another operation, or for less than that long, is no trouble.
    """
    quick = make_operation(3)
    record_all(engine, FIRST, SECOND, quick)
    edit(engine, FIRST.id, state="queued")
    for each in (SECOND, quick):
        edit(engine, each.id, send_at=get_now(engine) - 2 * MINUTE)

    with reading(engine) as connection:
        late = fetch_unsent(connection, older_than=MINUTE)
        later = fetch_unsent(connection, older_than=3 * MINUTE)

    assert [quick.id] == [each.id for each in late]
    assert [] == later
