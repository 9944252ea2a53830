"""Many operations canceled or tried again, by the rules that hold for one."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa

from models.database.engine import Author, make_engine, read_clock, reading, writing
from models.database.tables import deliveries, operation_steps, operations
from models.operation_state import LIVE_STATES, OperationState, Overlap, Queue, Reason
from models.paging import Page, Position
from operations.cancel_and_retry import CHANGED, Changed, OperationChange, change_page
from operations.claiming.claim import claim_operation, finish
from operations.operation_filter import OperationFilter
from operations.record import QUEUE_LIMIT
from operations.selecting import Counted, count_selected, fetch_page
from tests.database import execute, fetch_rows, read_by
from tests.scheduling import (
    MINUTE,
    MONDAY,
    add_app,
    add_mails,
    add_revision,
    add_steps,
    edit,
    fetch_noted,
    get,
    get_now,
    make_operation,
    post,
    record_all,
)


@pytest.fixture(autouse=True)
def _app(any_engine: sa.Engine) -> None:
    """Give every test a small app with an action."""
    add_revision(any_engine)


def add_weekly(engine: sa.Engine) -> None:
    post(engine, uid="weekly", name="weekly")


def count(engine: sa.Engine, change: str, wanted: OperationFilter) -> Counted:
    with reading(engine) as connection:
        at = read_clock(connection)
        return count_selected(connection, wanted, change=OperationChange(change), at=at)


def change_all(
    engine: sa.Engine,
    change: str,
    wanted: OperationFilter,
    *,
    at: datetime | None = None,
    batch: int = 3,
    author: Author | None = None,
) -> Changed:
    """Change page by page, as a runner does."""
    all_of_them = Changed()
    after: Position | None = None
    kind, at = OperationChange(change), at or count(engine, change, wanted).at
    while True:
        part = read_by(engine, fetch_page, wanted, kind, at=at, page=Page(batch, after))
        with writing(engine, author=author) as connection:
            changed = change_page(connection, part.entries, kind)
        all_of_them.done += changed.done
        all_of_them.refused += changed.refused
        after = part.following
        if after is None:
            return all_of_them


def cancel(engine: sa.Engine, wanted: OperationFilter, batch: int = 3) -> Changed:
    return change_all(engine, "cancel", wanted, batch=batch)


def retry(engine: sa.Engine, wanted: OperationFilter, batch: int = 3) -> Changed:
    return change_all(engine, "retry", wanted, batch=batch)


def fetch_states(engine: sa.Engine) -> list[str]:
    query = sa.select(operations.c.state).order_by(operations.c.occurrence)
    return list(fetch_rows(engine, query).scalars())


def set_all(engine: sa.Engine, **values: object) -> None:
    execute(engine, sa.update(operations).values(**values))


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_all_that_is_live_is_canceled(engine: sa.Engine, batch: int):
    """In batches of any size, each once; what is final stays as it is."""
    ids = record_all(engine, *(make_operation(n) for n in range(7)))
    edit(engine, ids[0], state="succeeded")

    changed = cancel(engine, OperationFilter(), batch=batch)

    assert (6, {}) == (changed.done, changed.refused)
    states = fetch_states(engine)
    assert (6, 1) == (states.count("canceled"), states.count("succeeded"))
    canceled = get(engine, ids[1])
    assert Reason.CANCELED == canceled.reason
    assert canceled.finished_at is not None


def test_canceled_ones_have_their_steps_and_mails_closed(engine: sa.Engine):
    """As one by one: open steps are skipped, and a mail under way is uncertain."""
    ids = record_all(engine, *(make_operation(n) for n in range(2)))
    states = ("succeeded", "running", "pending")
    for id_ in ids:
        add_steps(engine, id_, *({"name": each, "state": each} for each in states))
        add_mails(engine, id_, {"ann": "sending"}, at=get_now(engine))

    cancel(engine, OperationFilter())

    with reading(engine) as connection:
        steps = connection.execute(sa.select(operation_steps.c.state)).scalars().all()
        mails = connection.execute(sa.select(deliveries.c.state)).scalars().all()
    assert ["skipped"] * 4 + ["succeeded"] * 2 == sorted(steps)
    assert ["uncertain"] * 2 == list(mails)


def test_each_filter_leaves_out_the_others(engine: sa.Engine):
    """App, action, state, reason, queue and period; the reason may have more text."""
    add_app(engine, "other")
    add_weekly(engine)
    record_all(
        engine,
        make_operation(0),
        make_operation(1, app="other"),
        make_operation(2, action_uid="weekly"),
        make_operation(3, queue=Queue.HEAVY),
        make_operation(4),
    )
    set_all(engine, state="failed", reason="worker lost")
    edit(engine, make_operation(4).id, state="canceled", reason="step failed: publish")

    def retried(**fields: object) -> int:
        return count(engine, "retry", OperationFilter(**fields)).total  # type: ignore[arg-type]

    assert 5 == retried()
    assert 1 == retried(app="other")
    assert 1 == retried(action_uid="weekly")
    assert 1 == retried(states=frozenset({OperationState.CANCELED}))
    assert 1 == retried(reason=Reason.STEP_FAILED)
    assert 4 == retried(reason=Reason.WORKER_LOST)
    assert 1 == retried(queue=Queue.HEAVY)
    assert 3 == retried(since=MONDAY + 2 * MINUTE)
    assert 2 == retried(until=MONDAY + 2 * MINUTE)
    assert 0 == retried(app="other", queue=Queue.HEAVY)
    assert {"app": 4, "other": 1} == count(engine, "retry", OperationFilter()).by_app


def test_what_is_recorded_after_the_count_is_left_alone(engine: sa.Engine):
    """Nobody agreed to it."""
    record_all(engine, make_operation(0), make_operation(1))
    at = count(engine, "cancel", OperationFilter()).at - timedelta(seconds=1)
    edit(engine, make_operation(0).id, recorded_at=at)
    edit(engine, make_operation(1).id, recorded_at=at + timedelta(milliseconds=1))

    changed = change_all(engine, "cancel", OperationFilter(), at=at)

    assert 1 == changed.done
    assert ["canceled", "pending"] == fetch_states(engine)


@pytest.mark.parametrize("batch", [1, 2, 10])
def test_of_several_that_may_not_overlap_the_latest_runs(engine: sa.Engine, batch: int):
    """As in a tick; the others are refused for that reason, also across batches."""
    ids = record_all(engine, *(make_operation(n, overlap=Overlap.SKIP) for n in (0,)))
    edit(engine, ids[0], state="failed")
    for n in range(1, 4):
        record_all(engine, make_operation(n, overlap=Overlap.SKIP))
        edit(engine, make_operation(n).id, state="failed")

    changed = retry(engine, OperationFilter(), batch=batch)

    assert (1, {Reason.OVERLAP: 3}) == (changed.done, changed.refused)
    assert ["failed", "failed", "failed", "pending"] == fetch_states(engine)


def test_what_is_live_refuses_all_that_may_not_overlap(engine: sa.Engine):
    """Of the same action; those of another, and of ``allow``, go on."""
    add_weekly(engine)
    record_all(engine, make_operation(0, overlap=Overlap.SKIP))
    edit(engine, make_operation(0).id, state="failed")
    record_all(engine, make_operation(1, overlap=Overlap.SKIP))
    record_all(engine, make_operation(2, action_uid="weekly", overlap=Overlap.SKIP))
    edit(engine, make_operation(2, action_uid="weekly").id, state="failed")
    record_all(engine, make_operation(3))
    edit(engine, make_operation(3).id, state="canceled")

    changed = retry(engine, OperationFilter())

    assert (2, {Reason.OVERLAP: 1}) == (changed.done, changed.refused)


def test_queue_takes_no_more_than_it_holds(engine: sa.Engine):
    """``overlap: queue`` holds so many, also of what is tried again."""
    many = [make_operation(n, overlap=Overlap.QUEUE) for n in range(QUEUE_LIMIT + 5)]
    record_all(engine, *many[:QUEUE_LIMIT])
    set_all(engine, state="failed")
    record_all(engine, *many[QUEUE_LIMIT:])

    changed = retry(engine, OperationFilter(), batch=40)

    expected = (QUEUE_LIMIT - 5, {Reason.QUEUE_FULL: 5})
    assert expected == (changed.done, changed.refused)


def test_what_changes_meanwhile_is_told(postgres_engine: sa.Engine, postgres_url: str):
    """One that became final between the look and the write is nobody's to cancel."""
    engine = postgres_engine
    ids = record_all(engine, *(make_operation(n) for n in range(3)))
    counted = count(engine, "cancel", OperationFilter())
    other = make_engine(postgres_url)

    def end_one(connection: sa.Connection) -> None:
        if not connection.get_execution_options().get("read_only", False):
            edit(other, ids[0], state="succeeded")

    # before ours takes any lock
    sa.event.listen(engine, "begin", end_one)
    changed = change_all(engine, "cancel", OperationFilter(), at=counted.at)
    sa.event.remove(engine, "begin", end_one)
    other.dispose()

    assert (2, {CHANGED: 1}) == (changed.done, changed.refused)
    assert LIVE_STATES.isdisjoint(fetch_states(engine))


def test_workers_that_claim_meanwhile_lose_nothing(postgres_engine: sa.Engine):
    """Each ends once: by its worker, or canceled, and then its claim is void."""
    engine = postgres_engine
    ids = record_all(engine, *(make_operation(n) for n in range(120)))
    barrier = threading.Barrier(3)
    won: list[UUID] = []

    def work(mine: list[UUID]) -> None:
        barrier.wait()
        for id_ in mine:
            claim = claim_operation(engine, id_, worker="w")
            if claim is None:
                continue
            with writing(engine) as connection:
                if finish(connection, claim, OperationState.SUCCEEDED):
                    won.append(id_)

    threads = [
        threading.Thread(target=work, args=(mine,)) for mine in (ids[:60], ids[60:])
    ]
    for thread in threads:
        thread.start()
    barrier.wait()
    changed = cancel(engine, OperationFilter(), batch=10)
    for thread in threads:
        thread.join()

    states = fetch_states(engine)
    assert {"canceled", "succeeded"} >= set(states)
    assert changed.done == states.count("canceled")
    assert len(won) == states.count("succeeded")


def test_each_change_is_noted(engine: sa.Engine):
    """One row for each operation that was changed, with its state before and after."""
    ids = record_all(engine, *(make_operation(number) for number in range(3)))
    edit(engine, ids[0], state="failed")
    ann = Author("ann")
    counted = count(engine, "cancel", OperationFilter())

    change_all(engine, "cancel", OperationFilter(), at=counted.at, author=ann, batch=1)
    change_all(engine, "retry", OperationFilter(), at=counted.at, author=ann)

    rows = fetch_noted(engine, "operation")
    noted = [(row.subject, row.change, row.before, row.after) for row in rows]
    pending, canceled = {"state": "pending"}, {"state": "canceled"}
    assert sorted(
        [
            *((str(each), "canceled", pending, canceled) for each in ids[1:]),
            *((str(each), "retried", canceled, pending) for each in ids[1:]),
            (str(ids[0]), "retried", {"state": "failed"}, pending),
        ],
        key=str,
    ) == sorted(noted, key=str)
    assert {("ann", "app")} == {(row.by, row.app) for row in rows}
