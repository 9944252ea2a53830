"""What rows of operations alone do not tell."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.lease import Leader
from models.database.engine import read_clock, reading
from models.database.tables import leaderships
from models.operation_state import Mark, Overlap, Queue
from operations.list_operations import fetch_latest
from operations.operation_filter import OperationFilter
from operations.sending.order import fetch_sendable
from overview.operations import ShownOperation, fetch_shown_operations
from overview.why.circumstances import fetch_circumstances
from overview.why.sentences import ALONE, Circumstances, Place
from tests.database import execute, read_by
from tests.integration.test_budget import counting
from tests.presence import give_sign, make_worker
from tests.scheduling import (
    MINUTE,
    MONDAY,
    add_mails,
    add_revision,
    get_now,
    make_operation,
    put,
)

FIRST, SECOND, THIRD, FOURTH = (make_operation(number).id for number in range(4))


@pytest.fixture(autouse=True)
def _action(engine: sa.Engine) -> None:
    rule = {"cron_rule": "0 7 * * *", "timezone": "Europe/Paris"}
    add_revision(engine, when=rule)


def show(engine: sa.Engine) -> dict[UUID, ShownOperation]:
    shown = read_by(engine, fetch_shown_operations, OperationFilter(), limit=100)
    return {each.id: each for each in shown}


def meet(engine: sa.Engine) -> dict[UUID, Circumstances]:
    """Return what is known of all operations beside their rows, by id."""
    with reading(engine) as connection:
        rows = fetch_latest(connection, OperationFilter(), limit=100)
        return fetch_circumstances(connection, rows, now=read_clock(connection))


def say(engine: sa.Engine, operation_id: UUID) -> str:
    told = show(engine)[operation_id].told
    assert told is not None
    return told.text


def test_heavy_run_waits_for_the_other_one_of_its_app(engine: sa.Engine):
    """It names that one, which may be another action's."""
    put(engine, 0, queue="heavy", state="running", claim_token=uuid4())
    put(engine, 1, queue="heavy")

    waits = meet(engine)[SECOND]

    assert (FIRST, MONDAY) == (waits.blocker, waits.blocker_at)
    assert "another heavy run of app has not ended" in say(engine, SECOND)


def test_run_waits_for_its_turn(engine: sa.Engine):
    """Of an action whose overlap is queue, one at a time."""
    put(engine, 0, overlap=Overlap.QUEUE, state="queued")
    put(engine, 1, overlap=Overlap.QUEUE)

    assert FIRST == meet(engine)[SECOND].blocker


def test_run_that_could_be_sent_waits_for_a_leader(engine: sa.Engine):
    """The way out is named."""
    put(engine, send_at=MONDAY)

    assert say(engine, FIRST) == (
        "Waits to be sent since 2026-01-05 01:00:00 +01:00 (00:00:00Z): no scheduler"
        " leads; minutehand scheduler starts one, and so does minutehand up."
    )


def test_run_that_a_leader_does_not_send_is_for_the_doctor(engine: sa.Engine):
    """A leader that leads should have sent it within a second."""
    put(engine, send_at=MONDAY)
    leader = Leader(engine)
    assert leader.hold()

    assert "a scheduler leads, but has not sent it" in say(engine, FIRST)


def test_queued_run_has_a_place_in_its_queue(engine: sa.Engine):
    """The first sent is the first; and whether anybody takes from there."""
    now = get_now(engine)
    for number, queue in enumerate(("quick", "heavy", "quick")):
        sent_at = now - timedelta(seconds=number)
        put(engine, number, state="queued", sent_at=sent_at, queue=queue)
    give_sign(engine, make_worker(queues=[Queue.HEAVY]))
    places = {id_: each.place for id_, each in meet(engine).items()}

    assert Place(1, 2, is_served=False) == places[THIRD]
    assert Place(2, 2, is_served=False) == places[FIRST]
    assert Place(1, 1, is_served=True) == places[SECOND]


@pytest.mark.parametrize(
    ("given", "hindered"),
    [({"queue": "heavy"}, 1), ({"overlap": Overlap.QUEUE}, 1), ({"queue": "quick"}, 0)],
)
def test_it_agrees_with_the_sender(
    engine: sa.Engine, given: dict[str, object], hindered: int
):
    """What is said to be free is what the sender takes."""
    put(engine, 0, **given, state="queued")
    put(engine, 1, **given)
    sendable = {each.id for each in read_by(engine, fetch_sendable, limit=10)}

    known = meet(engine).get(SECOND, ALONE)

    assert (hindered == 0) == (SECOND in sendable)
    assert (hindered == 1) == bool(known.hindrance)


def test_skipped_occurrence_names_the_run_that_it_met(engine: sa.Engine):
    """Under way when it was recorded: none that had ended, or was skipped."""
    now = get_now(engine)
    for number in (1, 3):
        put(engine, number, state="skipped", reason="overlap")
    put(engine, 0, state="succeeded", recorded_at=now, finished_at=now + MINUTE)
    put(engine, 2, state="succeeded", recorded_at=now, finished_at=now - MINUTE)

    met = meet(engine)

    assert FIRST == met[SECOND].blocker
    assert FIRST == met[FOURTH].blocker
    assert say(engine, SECOND) == (
        "overlap: the run of 2026-01-05 01:00:00 +01:00 (00:00:00Z) was not final,"
        " and overlap is skip."
    )


@pytest.mark.parametrize(
    ("minutes", "gap"), [(2, (MONDAY, MONDAY + 2 * MINUTE)), (0.5, None)]
)
def test_missed_row_names_the_time_without_a_leader(
    engine: sa.Engine, minutes: float, gap: object
):
    """If the former leader released its lease, or gave a last sign; no short one."""
    put(engine, 1, state="missed", reason="outage", occurrence=MONDAY)
    led = [
        {"fence": fence, "hostname": "a", "pid": 1, "released_at": until}
        | {"acquired_at": MONDAY + since * MINUTE}
        for fence, since, until in ((1, -9, MONDAY), (2, minutes, None))
    ]
    execute(engine, sa.insert(leaderships), led)

    assert gap == meet(engine).get(SECOND, ALONE).outage


def test_uncertain_mails_mark_a_run_that_succeeded(engine: sa.Engine):
    """It is the first thing to know about it."""
    put(engine, state="succeeded")
    add_mails(engine, FIRST, {"ann": "uncertain", "ben": "sent"})

    shown = show(engine)[FIRST]

    assert (1, Mark.UNCERTAIN) == (shown.uncertain_mails, shown.mark)
    assert shown.told is not None


def test_times_are_told_in_the_zone_of_the_action(engine: sa.Engine):
    """Whoever wrote the rule reads its clocks, beside UTC."""
    put(engine, state="canceled", reason="canceled", finished_at=MONDAY)

    assert "Europe/Paris" == show(engine)[FIRST].zone
    assert "2026-01-05 01:00:00 +01:00 (00:00:00Z)" in say(engine, FIRST)


def test_list_of_many_costs_no_more_questions_than_one(engine: sa.Engine):
    """Each kind of knowledge is one query for all rows."""
    costs = []
    for number in (0, 1, 2, 3):
        put(engine, number, state="skipped", reason="overlap")
        with counting(engine) as counts:
            show(engine)
        costs.append(counts.statements)

    assert 1 == len(set(costs)), costs
