"""What rows of operations alone do not tell."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.lease import Leader
from models.database.engine import read_clock, reading, writing
from models.database.tables import leaderships
from models.operation_state import Mark, Overlap, Queue
from operations.list_operations import fetch_latest
from operations.operation_filter import OperationFilter
from operations.sending.order import fetch_sendable
from overview.operations import ShownOperation, fetch_shown_operations
from overview.why.circumstances import fetch_circumstances
from overview.why.sentences import ALONE, Circumstances, Place
from tests.database import read_by
from tests.integration.test_budget import counting
from tests.presence import give_sign, make_worker
from tests.scheduling import (
    MINUTE,
    MONDAY,
    add_mails,
    add_revision,
    edit,
    get_now,
    make_operation,
    record_all,
)

FIRST, SECOND, THIRD = (make_operation(number) for number in range(3))


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
    for new in (FIRST, SECOND):
        record_all(engine, new)
        edit(engine, new.id, queue="heavy")
    edit(engine, FIRST.id, state="running", claim_token=uuid4())

    waits = meet(engine)[SECOND.id]

    assert (FIRST.id, MONDAY) == (waits.blocker, waits.blocker_at)
    assert "another heavy run of app has not ended" in say(engine, SECOND.id)


def test_run_waits_for_its_turn(engine: sa.Engine):
    """Of an action whose overlap is queue, one at a time."""
    for new in (FIRST, SECOND):
        record_all(engine, new)
        edit(engine, new.id, overlap=Overlap.QUEUE)
    edit(engine, FIRST.id, state="queued")

    assert FIRST.id == meet(engine)[SECOND.id].blocker


def test_run_that_could_be_sent_waits_for_a_leader(engine: sa.Engine):
    """The way out is named."""
    record_all(engine, FIRST)
    edit(engine, FIRST.id, send_at=MONDAY)

    assert say(engine, FIRST.id) == (
        "Waits to be sent since 2026-01-05 01:00:00 +01:00 (00:00:00Z): no scheduler"
        " leads; minutehand scheduler starts one, and so does minutehand up."
    )


def test_run_that_a_leader_does_not_send_is_for_the_doctor(engine: sa.Engine):
    """A leader that leads should have sent it within a second."""
    record_all(engine, FIRST)
    edit(engine, FIRST.id, send_at=MONDAY)
    leader = Leader(engine)
    assert leader.hold()

    assert "a scheduler leads, but has not sent it" in say(engine, FIRST.id)


def test_queued_run_has_a_place_in_its_queue(engine: sa.Engine):
    """The first sent is the first; and whether anybody takes from there."""
    now = get_now(engine)
    for number, new in enumerate((THIRD, SECOND, FIRST)):
        record_all(engine, new)
        sent_at = now + timedelta(seconds=number)
        edit(engine, new.id, state="queued", sent_at=sent_at)
    edit(engine, SECOND.id, queue="heavy")
    give_sign(engine, make_worker(queues=[Queue.HEAVY]))
    places = {id_: each.place for id_, each in meet(engine).items()}

    assert Place(1, 2, is_served=False) == places[THIRD.id]
    assert Place(2, 2, is_served=False) == places[FIRST.id]
    assert Place(1, 1, is_served=True) == places[SECOND.id]


@pytest.mark.parametrize(
    ("given", "hindered"),
    [({"queue": "heavy"}, 1), ({"overlap": Overlap.QUEUE}, 1), ({"queue": "quick"}, 0)],
)
def test_it_agrees_with_the_sender(
    engine: sa.Engine, given: dict[str, object], hindered: int
):
    """What is said to be free is what the sender takes."""
    for new in (FIRST, SECOND):
        record_all(engine, new)
        edit(engine, new.id, **given)
    edit(engine, FIRST.id, state="queued")
    sendable = {each.id for each in read_by(engine, fetch_sendable, limit=10)}

    known = meet(engine).get(SECOND.id, ALONE)

    assert (hindered == 0) == (SECOND.id in sendable)
    assert (hindered == 1) == bool(known.hindrance)


def test_skipped_occurrence_names_the_run_that_it_met(engine: sa.Engine):
    """Under way when it was recorded: none that had ended, or was skipped."""
    record_all(engine, FIRST, SECOND, THIRD, make_operation(3))
    now = get_now(engine)
    edit(engine, FIRST.id, state="succeeded", finished_at=now + MINUTE)
    edit(engine, SECOND.id, state="skipped", reason="overlap")
    edit(engine, THIRD.id, state="succeeded", finished_at=now - MINUTE)
    edit(engine, make_operation(3).id, state="skipped", reason="overlap")

    met = meet(engine)

    assert FIRST.id == met[SECOND.id].blocker
    assert FIRST.id == met[make_operation(3).id].blocker
    assert say(engine, SECOND.id) == (
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
    record_all(engine, SECOND)
    edit(engine, SECOND.id, state="missed", reason="outage", occurrence=MONDAY)
    with writing(engine) as connection:
        for fence, since, until in ((1, -9, 0), (2, minutes, None)):
            connection.execute(
                sa.insert(leaderships).values(
                    fence=fence,
                    hostname="a",
                    pid=1,
                    acquired_at=MONDAY + since * MINUTE,
                    released_at=None if until is None else MONDAY + until * MINUTE,
                )
            )

    assert gap == meet(engine).get(SECOND.id, ALONE).outage


def test_uncertain_mails_mark_a_run_that_succeeded(engine: sa.Engine):
    """It is the first thing to know about it."""
    record_all(engine, FIRST)
    edit(engine, FIRST.id, state="succeeded")
    add_mails(engine, FIRST.id, {"ann": "uncertain", "ben": "sent"})

    shown = show(engine)[FIRST.id]

    assert (1, Mark.UNCERTAIN) == (shown.uncertain_mails, shown.mark)
    assert shown.told is not None


def test_times_are_told_in_the_zone_of_the_action(engine: sa.Engine):
    """Whoever wrote the rule reads its clocks, beside UTC."""
    record_all(engine, FIRST)
    edit(engine, FIRST.id, state="canceled", reason="canceled", finished_at=MONDAY)

    assert "Europe/Paris" == show(engine)[FIRST.id].zone
    assert "2026-01-05 01:00:00 +01:00 (00:00:00Z)" in say(engine, FIRST.id)


def test_list_of_many_costs_no_more_questions_than_one(engine: sa.Engine):
    """Each kind of knowledge is one query for all rows."""
    costs = []
    for number in (0, 1, 2, 3):
        new = make_operation(number)
        record_all(engine, new)
        edit(engine, new.id, state="skipped", reason="overlap")
        with counting(engine) as counts:
            show(engine)
        costs.append(counts.statements)

    assert 1 == len(set(costs)), costs
