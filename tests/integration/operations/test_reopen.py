"""What is tried again keeps to ``overlap``, as what is recorded does."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from actions.posting.post import delete_action
from dispatch.manual_runs import run_now
from models.errors import ConflictError
from models.operation_state import LIVE_STATES, OperationState, Overlap
from operations.cancel_and_retry import get_live_beside, reopen
from tests.database import read_by, write_by
from tests.scheduling import (
    REFRESH,
    add_app,
    add_revision,
    edit,
    fetch_all,
    get,
    make_operation,
    post,
    record_all,
)

FAILED, OTHER = (make_operation(n, overlap=Overlap.SKIP) for n in (1, 2))


def retry(engine: sa.Engine) -> bool:
    """Try FAILED again, in a transaction of its own."""
    return write_by(engine, reopen, FAILED.id)


@pytest.mark.parametrize("state", list(OperationState))
def test_retry_beside_what_is_live_is_refused(engine: sa.Engine, state: OperationState):
    """``skip`` lets one run at a time; what is final is in nobody's way."""
    add_revision(engine)
    record_all(engine, FAILED)
    edit(engine, FAILED.id, state="failed")
    record_all(engine, OTHER)
    edit(engine, OTHER.id, state=state)

    beside = read_by(engine, get_live_beside, FAILED.id)
    reopened = retry(engine)

    is_live = state in LIVE_STATES
    assert (OTHER.id if is_live else None) == beside
    assert (not is_live) == reopened
    assert ("failed" if is_live else "pending") == get(engine, FAILED.id).state


@pytest.mark.parametrize(
    ("overlap", "other"),
    [
        (Overlap.QUEUE, {}),
        (Overlap.ALLOW, {}),
        (Overlap.SKIP, {"user_id": "ann"}),
        (Overlap.SKIP, {"action_uid": "another"}),
    ],
)
def test_retry_beside_others_is_let_through(
    engine: sa.Engine, overlap: Overlap, other: dict[str, str]
):
    """What is queued waits before it is sent; other users and actions do not count."""
    add_revision(engine)
    record_all(engine, FAILED, make_operation(2, **other))
    edit(engine, FAILED.id, state="failed", overlap=overlap)

    assert retry(engine)


def test_run_of_an_action_that_is_gone_is_tried_again(engine: sa.Engine):
    """Its worker finds that it was deleted, and says so."""
    add_revision(engine)
    record_all(engine, FAILED)
    edit(engine, FAILED.id, state="failed")
    write_by(engine, delete_action, "daily")

    assert retry(engine)


def test_one_of_many_at_once_is_live(postgres_engine: sa.Engine):
    """Retries and runs of one action see each other, however close they come."""
    engine = postgres_engine
    add_app(engine)
    uid = post(engine, operations=REFRESH).uid
    failed = []
    for _ in range(6):
        failed.append(run_now(engine, uid))
        edit(engine, failed[-1], state="failed")
    barrier = threading.Barrier(8)
    won: list[bool] = []

    def ask(number: int) -> None:
        barrier.wait()
        if number < len(failed):
            won.append(write_by(engine, reopen, failed[number]))
            return
        try:
            run_now(engine, uid)
        except ConflictError:
            won.append(False)
        else:
            won.append(True)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [False] * 7 + [True] == sorted(won)
    assert 1 == sum(row.state in LIVE_STATES for row in fetch_all(engine))
