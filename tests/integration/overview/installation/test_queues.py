"""What waits in each queue, how fast it is taken, and what workers do."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.pausing.queues import pause_queue
from celery_app.lost_children import make_worker_name
from models.database.engine import Author, writing
from models.database.tables import ALIVE_FOR
from models.operation_state import Queue
from models.requests.notes import PauseModel
from operations.fleet.processes import drain_worker
from overview.installation.figures import fetch_lag
from overview.installation.queues import ShownQueue, fetch_queues
from overview.installation.status import fetch_status
from overview.installation.workers import WorkerState, fetch_workers
from tests.database import read_by, write_by
from tests.presence import SETTINGS, give_sign, make_worker
from tests.scheduling import HOUR, MINUTE, examine, get_now, put


def fetch(engine: sa.Engine, queue: Queue = Queue.QUICK) -> ShownQueue:
    return next(e for e in read_by(engine, fetch_queues) if e.queue is queue)


def record(
    engine: sa.Engine,
    number: int,
    *,
    ago: timedelta,
    waited: timedelta | None = None,
    queue: Queue = Queue.QUICK,
    **values: object,
) -> UUID:
    """Record an operation *ago*; a worker began it after it had *waited*."""
    at = get_now(engine) - ago
    if waited is not None:
        claim = {"state": "running", "claim_token": uuid4()}
        values = {**claim, "started_at": at + waited, **values}
    return put(engine, number, queue=queue, recorded_at=at, send_at=at, **values)


def test_what_waits_is_counted_with_its_age(engine: sa.Engine):
    """What runs does not wait; empty queues are listed as well."""
    record(engine, 1, ago=3 * MINUTE)
    record(engine, 2, ago=2 * MINUTE, state="queued", sent_at=get_now(engine))
    record(engine, 3, ago=9 * MINUTE, waited=MINUTE)

    shown, empty = fetch(engine), fetch(engine, Queue.HEAVY)

    assert (2, 1, 1, 1) == (shown.waiting, shown.pending, shown.queued, shown.running)
    assert shown.oldest_s == pytest.approx(180, abs=30)
    assert (0, None, 0.0) == (empty.waiting, empty.oldest_s, empty.empty_in_s)


def test_pace_tells_when_it_is_empty(engine: sa.Engine):
    """By what was begun within 15 minutes; a pause has no end of its own."""
    for number in range(3):
        record(engine, number, ago=10 * MINUTE, waited=MINUTE)
    record(engine, 7, ago=40 * MINUTE, waited=MINUTE)
    record(engine, 8, ago=61 * MINUTE, waited=3 * MINUTE)
    record(engine, 9, ago=80 * MINUTE, waited=MINUTE)
    for number in range(10, 12):
        record(engine, number, ago=MINUTE)
    unserved = fetch(engine).empty_in_s
    give_sign(engine, make_worker())

    shown = fetch(engine)
    write_by(engine, pause_queue, Queue.QUICK)
    paused = fetch(engine)

    assert (3, 5) == (shown.taken_15_min, shown.taken_1_h)
    assert 15 * 60 * 2 / 3 == shown.empty_in_s
    assert unserved is None
    assert paused.empty_in_s is None
    assert paused.pause is not None


def test_what_nobody_takes_has_no_end(engine: sa.Engine):
    """But the scheduler itself sends tasks of other projects, which no worker takes."""
    for queue, number in ((Queue.QUICK, 0), (Queue.TASKS, 2)):
        record(engine, number, ago=9 * MINUTE, waited=MINUTE, queue=queue)
        record(engine, number + 1, ago=MINUTE, queue=queue)

    assert fetch(engine).empty_in_s is None
    assert 15 * 60 == fetch(engine, Queue.TASKS).empty_in_s


def test_what_waited_long_counts_while_others_wait_as_long(engine: sa.Engine):
    """After a pause of hours the pace is that of what is taken now."""
    record(engine, 1, ago=5 * HOUR, waited=5 * HOUR - MINUTE)
    record(engine, 2, ago=5 * HOUR)

    assert 1 == fetch(engine).taken_15_min


def test_history_is_what_waited_at_each_minute(engine: sa.Engine):
    """From an hour ago until now; what was skipped never waited."""
    record(engine, 1, ago=30.5 * MINUTE, waited=10 * MINUTE)
    record(engine, 2, ago=5.5 * MINUTE)
    record(engine, 3, ago=20.5 * MINUTE, state="skipped")

    history = fetch(engine).history

    assert 61 == len(history)
    waited = [60 - place for place, count in enumerate(history) if count]
    assert [*range(30, 20, -1), *range(5, -1, -1)] == waited


def test_workers_say_what_they_do(engine: sa.Engine):
    """In a word; one that is drained can be stopped."""
    told = {}
    for number, name in enumerate(("idle", "working", "draining", "drained", "silent")):
        queues = () if name == "drained" else ("quick",)
        age = ALIVE_FOR * 2 if name == "silent" else timedelta(0)
        worker = make_worker("h", name=f"{name}@h", queues=queues)
        give_sign(engine, worker, age=age)
        if name in {"working", "draining"}:
            claimant = make_worker_name(worker.name)
            record(engine, number, ago=MINUTE, waited=MINUTE / 2, worker=claimant)
        if name in {"draining", "drained"}:
            write_by(engine, drain_worker, worker.id, by="ada", note=None)
    for each in read_by(engine, fetch_workers):
        told[each.name] = (each.state, each.taken_1_h)

    assert {
        "idle@h": (WorkerState.IDLE, 0),
        "working@h": (WorkerState.WORKING, 1),
        "draining@h": (WorkerState.DRAINING, 1),
        "drained@h": (WorkerState.DRAINED, 0),
        "silent@h": (WorkerState.SILENT, 0),
    } == told


def test_lag_is_the_wait_of_most(engine: sa.Engine):
    """Of twenty, nineteen began within two seconds."""
    at = get_now(engine) - 5.5 * MINUTE
    for number in range(20):
        waits = timedelta(seconds=100 if number == 7 else 2)
        put(engine, number, recorded_at=at, started_at=at + waits)
    found = read_by(engine, fetch_lag)

    assert found.p95 is not None
    assert found.p95.total_seconds() == pytest.approx(2, abs=0.01)
    assert {5: found.p95.total_seconds()} == found.by_minute


def test_status_and_doctor_name_a_paused_queue(engine: sa.Engine):
    """Who did it, why, and how to end it."""
    record(engine, 1, ago=MINUTE)
    with writing(engine, author=Author("ada")) as connection:
        pause_queue(connection, Queue.QUICK, PauseModel(note="new mail server"))

    status = read_by(engine, fetch_status, SETTINGS)
    (quick, *_) = (e for e in examine(engine, "queues") if "quick" in e.subject)

    assert "new mail server" == status.paused.queues[Queue.QUICK].note
    assert "look" == quick.health
    assert " by ada (new mail server): nothing of it is sent." in quick.detail
    assert "Workers, or minutehand queues resume quick. 1 wait" in quick.detail


def test_doctor_names_drained_workers_of_a_queue_that_nobody_takes(engine: sa.Engine):
    """They may be why."""
    worker = make_worker("h", name="quick@h", queues=())
    give_sign(engine, worker)
    record(engine, 1, ago=MINUTE)
    write_by(engine, drain_worker, worker.id, by="ada", note=None)

    (quick, *_) = (e for e in examine(engine, "queues") if "quick" in e.subject)

    assert "Drained workers take nothing: quick@h." in quick.detail
