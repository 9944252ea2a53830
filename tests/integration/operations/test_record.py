"""Recording operations: once each, and not beside what overlaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from models.database.engine import writing
from models.database.tables import operations
from models.database.transaction import Answer, AtOnce, departing
from models.occurrence import make_missed_id
from models.operation_state import LIVE_STATES, OperationState, Overlap, Reason
from operations.cancel_and_retry import cancel, reopen
from operations.record import QUEUE_LIMIT, ask_record, record
from operations.state import get_operation_state
from tests.database import execute, race, write_by
from tests.scheduling import (
    MONDAY,
    edit,
    fetch_all,
    get,
    get_now,
    make_operation,
    put,
    record_all,
)


def test_recording_twice_is_recording_once(engine: sa.Engine):
    """The second time nothing is inserted and nothing of the first row changes."""
    first, second = make_operation(1), make_operation(2)
    assert {first.id} == set(record_all(engine, first))
    before = get(engine, first.id)

    inserted = record_all(engine, first, second)

    assert [second.id] == inserted
    assert before == get(engine, first.id)


def test_row_keeps_what_was_decided(engine: sa.Engine):
    """Every field comes back as it was given, with a time of recording."""
    made = make_operation(
        3, user_id="zoë | ann", event_at=MONDAY, details={"first": "é", "count": 2}
    )
    write_by(engine, record, [made], fence=7)

    row = get(engine, made.id)

    for name in made._fields:
        assert getattr(made, name) == getattr(row, name), name
    assert 7 == row.fence
    assert row.recorded_at <= row.send_at <= get_now(engine)
    assert (None, None, 0, 3, 0) == (
        row.finished_at,
        row.sent_at,
        row.attempt,
        row.attempts_allowed,
        row.sends,
    )


def test_what_will_not_run_is_finished_at_once(engine: sa.Engine):
    """A skipped or missed row is final when it is recorded."""
    made = make_operation(state=OperationState.MISSED, reason=Reason.OUTAGE)
    record_all(engine, made)

    row = get(engine, made.id)

    assert row.recorded_at <= row.finished_at


@dataclass(frozen=True)
class Noting(AtOnce):
    """Keeps what the database answers."""

    answers: list[Answer] = field(default_factory=list)

    def ask(self, statement: sa.Executable, values: Mapping[str, object]) -> Answer:
        """Ask, and keep the answer."""
        self.answers.append(super().ask(statement, values))
        return self.answers[-1]


def test_many_are_counted_by_state(postgres_engine: sa.Engine):
    """In one row each: the answer to thousands may have to wait until it is read."""
    known = make_operation(0)
    record_all(postgres_engine, known)
    missed = make_operation(1, state=OperationState.MISSED, reason=Reason.OUTAGE)
    with writing(postgres_engine) as connection:
        noting = Noting(connection)
        count = ask_record(noting, [known, missed, *map(make_operation, range(2, 502))])

    assert {OperationState.MISSED: 1, OperationState.PENDING: 500} == count()
    assert 2 == sum(len(answer.rows) for answer in noting.answers)


def test_recorded_are_counted(engine: sa.Engine):
    """What was there before is not; what may not run counts as skipped."""
    known = make_operation(0)
    record_all(engine, known)
    new = [make_operation(number, overlap=Overlap.SKIP) for number in (1, 2)]

    with departing(engine) as flight:
        count = ask_record(flight, [known, *new])
    flight.land()

    assert {OperationState.SKIPPED: 2} == count()


def test_skip_runs_the_latest_of_one_tick(engine: sa.Engine):
    """Two of three are skipped, each under its own id; the last runs."""
    made = [make_operation(n, overlap=Overlap.SKIP) for n in range(3)]
    record_all(engine, *made)

    rows = [(row.id, row.state, row.reason) for row in fetch_all(engine)]

    assert [
        (made[0].id, "skipped", "overlap"),
        (made[1].id, "skipped", "overlap"),
        (made[2].id, "pending", None),
    ] == rows


@pytest.mark.parametrize("state", list(OperationState))
def test_skip_while_a_former_run_is_not_final(engine: sa.Engine, state: OperationState):
    """Whatever triggered it; one that has ended, however it did, counts no more."""
    former, later = make_operation(1), make_operation(2, overlap=Overlap.SKIP)
    record_all(engine, former)
    edit(engine, former.id, state=state)

    record_all(engine, later)

    expected = "skipped" if state in LIVE_STATES else "pending"
    assert expected == get(engine, later.id).state


def test_overlap_is_judged_by_action_and_user(engine: sa.Engine):
    """Other users, other actions and no user at all do not overlap."""
    skip = {"overlap": Overlap.SKIP}
    made = [
        make_operation(1, user_id="ann", **skip),
        make_operation(2, user_id="bob", **skip),
        make_operation(3, **skip),
        make_operation(4, action_uid="weekly", **skip),
    ]
    record_all(engine, *made)

    assert ["pending"] * 4 == [row.state for row in fetch_all(engine)]


def test_queue_holds_a_hundred(engine: sa.Engine):
    """``queue`` keeps all up to its limit; what comes then is skipped, and says why."""
    made = [make_operation(n, overlap=Overlap.QUEUE) for n in range(QUEUE_LIMIT + 2)]
    record_all(engine, *made[:60])
    record_all(engine, *made[60:])

    rows = fetch_all(engine)

    assert ["pending"] * QUEUE_LIMIT == [row.state for row in rows[:QUEUE_LIMIT]]
    assert [("skipped", "queue full")] * 2 == [
        (row.state, row.reason) for row in rows[QUEUE_LIMIT:]
    ]


def test_missed_row_overlaps_nothing(engine: sa.Engine):
    """What is recorded as missed neither waits nor makes others wait."""
    missed = make_operation(
        1,
        overlap=Overlap.SKIP,
        state=OperationState.MISSED,
        id=make_missed_id("daily", MONDAY),
    )
    later = make_operation(2, overlap=Overlap.SKIP)
    record_all(engine, missed, later)

    assert ["missed", "pending"] == [row.state for row in fetch_all(engine)]


def test_what_is_recorded_already_does_not_skip_others(engine: sa.Engine):
    """A decision taken again weighs nothing: only rows that are new can overlap."""
    done = make_operation(2, overlap=Overlap.SKIP)
    record_all(engine, done)
    edit(engine, done.id, state="succeeded")
    earlier = make_operation(1, overlap=Overlap.SKIP)

    record_all(engine, earlier, done)

    assert "pending" == get(engine, earlier.id).state


def test_twenty_recorders_insert_one_row(postgres_engine: sa.Engine):
    """Two schedulers that decide the same occurrence at once record it once."""
    made = make_operation()

    inserted = race(8, lambda _number: record_all(postgres_engine, made))

    assert [[]] * 7 + [[made.id]] == sorted(inserted)


@pytest.mark.parametrize("state", list(OperationState))
def test_cancel_and_reopen_change_only_what_they_may(
    engine: sa.Engine, state: OperationState
):
    """Cancel takes what is live, reopen what failed or was canceled; the rest stays."""
    made = put(engine, state=state)
    reopened = write_by(engine, reopen, made)
    edit_back = sa.update(operations).values(state=state)
    execute(engine, edit_back)
    canceled = write_by(engine, cancel, made, reason="canceled")

    assert (state in {"failed", "canceled"}) == reopened
    assert (state in LIVE_STATES) == canceled
    assert ("canceled" if canceled else state) == get(engine, made).state


def test_reopen_gives_three_more_attempts_and_sends_at_once(engine: sa.Engine):
    """The row and its id stay; why it failed is forgotten, but not that it was sent."""
    made = put(
        engine,
        state="failed",
        reason="x",
        error="y",
        attempt=3,
        finished_at=MONDAY,
        sends=3,
    )
    write_by(engine, reopen, made)

    row = get(engine, made)

    assert ("pending", None, None, None) == (
        row.state,
        row.reason,
        row.error,
        row.finished_at,
    )
    assert (3, 6, 1) == (row.attempt, row.attempts_allowed, row.sends)


def test_unknown_operations_are_none_of_ours(engine: sa.Engine):
    """An id nobody recorded is neither canceled, nor reopened, nor "pending"."""
    unknown = make_operation().id
    with writing(engine) as connection:
        assert not cancel(connection, unknown, reason="canceled")
        assert not reopen(connection, unknown)
        assert get_operation_state(connection, unknown) is None
        assert get_operation_state(connection, "no uuid") is None
