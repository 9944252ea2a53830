"""A paused queue: what is recorded waits, and says why."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from actions.pausing.pause_state import tag_pause
from actions.pausing.queues import (
    fetch_queue_pause,
    fetch_queue_pauses,
    pause_queue,
    resume_queue,
)
from models.database.engine import Author, writing
from models.database.tables import operations, queue_pauses
from models.errors import ConflictError, StaleError, UsageError
from models.operation_state import OperationState, Queue
from models.paging import Page
from models.requests.notes import PauseModel
from operations.claiming.claim import claim_operation
from operations.sending.order import fetch_sendable, has_sendable
from overview.changes import ChangeFilter, fetch_changes
from overview.doctor.checks.work import fetch_unsent
from tests.database import execute, fetch_rows, read_by, write_by
from tests.scheduling import (
    MINUTE,
    REFRESH,
    add_revision,
    edit,
    get_now,
    make_operation,
    record_all,
    say_why,
)

QUICK, HEAVY = make_operation(1), make_operation(2, queue=Queue.HEAVY)


@pytest.fixture(autouse=True)
def _operations(engine: sa.Engine) -> None:
    """Record one operation of each queue."""
    add_revision(engine, operations=REFRESH)
    record_all(engine, QUICK, HEAVY)


def pause(
    engine: sa.Engine,
    queue: Queue = Queue.QUICK,
    *,
    lasts: timedelta | None = None,
    note: str | None = None,
    expected: str | None = None,
) -> int:
    """Pause *queue* for so long, and return how many operations wait in it."""
    until = None if lasts is None else get_now(engine) + lasts
    with writing(engine, author=Author("ada", None, None)) as connection:
        return pause_queue(
            connection, queue, PauseModel(until=until, note=note), expected=expected
        ).waiting


def find_sendable(engine: sa.Engine) -> set[object]:
    return {each.id for each in read_by(engine, fetch_sendable, limit=10)}


def get_state(engine: sa.Engine) -> str:
    return str(
        fetch_rows(
            engine, sa.select(operations.c.state).where(operations.c.id == QUICK.id)
        ).scalar_one()
    )


def test_nothing_of_a_paused_queue_is_sent(engine: sa.Engine):
    waiting = pause(engine)
    paused = find_sendable(engine)
    live = read_by(engine, has_sendable, Queue.QUICK)
    resumed = write_by(engine, resume_queue, Queue.QUICK)

    assert {HEAVY.id} == paused
    assert (1, 1, False) == (waiting, resumed.waiting, live)
    assert {QUICK.id, HEAVY.id} == find_sendable(engine)
    for queue in Queue:
        pause(engine, queue)
    later = get_now(engine) + 60 * MINUTE
    assert [] == read_by(engine, fetch_unsent, now=later)  # and so it is not late


def test_what_was_sent_before_is_handed_back(engine: sa.Engine):
    """The worker that gets its message claims nothing; the row waits again."""
    edit(engine, QUICK.id, state="queued", sent_at=get_now(engine))
    pause(engine)

    claim = claim_operation(engine, QUICK.id, worker="w")
    waits = get_state(engine)
    write_by(engine, resume_queue, Queue.QUICK)

    assert claim is None
    assert OperationState.PENDING == waits
    assert claim_operation(engine, QUICK.id, worker="w") is not None
    pause(engine)
    assert OperationState.RUNNING == get_state(engine)  # what runs goes on


def test_a_pause_ends_by_the_clock_alone(engine: sa.Engine):
    """However long nobody leads."""
    pause(engine, lasts=MINUTE)
    execute(
        engine, sa.update(queue_pauses).values(paused_until=get_now(engine) - MINUTE)
    )

    left = read_by(engine, fetch_queue_pauses)

    assert {} == left
    assert {QUICK.id, HEAVY.id} == find_sendable(engine)
    assert claim_operation(engine, QUICK.id, worker="w") is not None
    with pytest.raises(ConflictError), writing(engine) as connection:
        resume_queue(connection, Queue.QUICK)


@pytest.mark.parametrize("state", ["pending", "queued"])
def test_what_waits_says_why(engine: sa.Engine, state: str):
    """Since when, until when and what for; not by whom, since tenants read it too."""
    edit(engine, QUICK.id, state=state, sent_at=get_now(engine))
    pause(engine, lasts=MINUTE, note="move of the mail server")

    told = read_by(engine, say_why, QUICK.id)

    assert "queue quick has been paused since " in told
    assert " until " in told
    assert told.endswith("Z: move of the mail server.")
    assert "ada" not in told


def test_a_pause_can_be_given_another_end(engine: sa.Engine):
    pause(engine, note="first")
    first = read_by(engine, fetch_queue_pause, Queue.QUICK)
    pause(engine)
    same = read_by(engine, fetch_queue_pause, Queue.QUICK)
    pause(engine, lasts=MINUTE, note="second")
    second = read_by(engine, fetch_queue_pause, Queue.QUICK)

    assert first == same
    assert first is not None
    assert second is not None
    assert (first.at, "second") == (second.at, second.note)
    assert second.until is not None
    assert ("ada", None, "queue") == (
        second.by,
        second.seen_by("shop").by,  # who paused it is an operator
        second.scope,
    )


def test_a_pause_is_recorded(engine: sa.Engine):
    pause(engine, note="deployment")
    with writing(engine, author=Author("bob", None, None)) as connection:
        resume_queue(connection, Queue.QUICK, note="done")

    found = read_by(engine, fetch_changes, ChangeFilter(kind="queue"), Page(10)).entries

    assert [("bob", "resumed", "done"), ("ada", "paused", "deployment")] == [
        (each.by, each.change, each.note) for each in found
    ]
    assert found[1].after is not None
    assert 1 == found[1].after["waiting"]
    assert "deployment" == found[1].after["pause"]["note"]


def test_a_pause_that_was_changed_meanwhile_is_refused(engine: sa.Engine):
    """The author has decided on another one; nor can one begin that has ended."""
    pause(engine, note="mine", expected=tag_pause(None))

    with pytest.raises(StaleError, match="queue quick was changed meanwhile"):
        pause(engine, note="yours", expected=tag_pause(None))
    with pytest.raises(UsageError, match="in the future"):
        pause(engine, lasts=-MINUTE)
