"""The tick against a database: it finds what there is, and leaves nobody out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from actions.decide import DueAction
from actions.due_rows import fetch_due, fetch_events, fetch_first_turns, fetch_turns
from actions.tick import Dispatched, run_tick
from dispatch.dispatcher import Dispatcher
from dispatch.foresee import NoFlights
from models.database.engine import reading
from models.decision import Decision
from models.occurrence import make_operation_id
from operations.sending.order import fetch_sendable
from telemetry import OCCURRENCES_RECORDED
from tests.scheduling import (
    MINUTE,
    MINUTELY,
    REFRESH,
    FakeSender,
    add_event,
    at,
    copy_action,
    edit_action,
    fetch_action,
    fetch_all,
    make_dispatcher,
    post_at,
    tick,
)

pytestmark = pytest.mark.usefixtures("small_app")


def test_three_minutes_of_outage_run_three_times(engine: sa.Engine):
    uid = post_at(engine, at("12:01"), when=MINUTELY)
    dispatcher = make_dispatcher(engine)

    report = tick(dispatcher, at("12:03"))
    again = tick(dispatcher, at("12:03:59"))

    expected = [make_operation_id(uid, at(f"12:0{n}")) for n in (1, 2, 3)]
    assert expected == [row.id for row in fetch_all(engine)]
    assert (1, 3, 3) == (report.due, report.recorded, report.sent)
    assert (0, 0, 0) == (again.due, again.recorded, again.sent)
    assert [1] * 3 == [row.fence for row in fetch_all(engine)]


def test_decisions_are_counted_as_they_are_recorded(engine: sa.Engine):
    """An overlap is decided in the recording statement, and is no dispatch."""
    post_at(engine, at("12:01"), when=MINUTELY, operations=REFRESH)
    dispatcher = make_dispatcher(engine)
    before = count_decisions()

    tick(dispatcher, at("12:03"))

    after = count_decisions()
    assert (1, 2, 0) == tuple(
        now - then for now, then in zip(after, before, strict=True)
    )


def count_decisions() -> list[float]:
    """Return how many decisions of each kind this process has counted."""
    return [
        OCCURRENCES_RECORDED.labels(decision)._value.get()
        for decision in ("dispatched", "skipped", "missed")
    ]


AFTER = {"after": "app.x", "delay": "PT1H"}
ON_MARS = '{"when": [{"cron_rule": "0 7 * * *", "timezone": "Mars/Base"}]}'


@pytest.mark.parametrize(
    ("when", "corrupt"),
    [
        (MINUTELY, {"timing": "no JSON"}),
        (MINUTELY, {"timing": ON_MARS}),
        (MINUTELY, {"timing": '{"when": [{"cron_rule": "61 * * * *"}]}'}),
        (MINUTELY, {"timing": None}),
        (MINUTELY, {"queue": "fast lane"}),
        (MINUTELY, {"overlap": "whatever"}),
        (
            MINUTELY,
            {
                "catch_up_within": "a while",
                "next_due_at": at("01:00"),
                "effective_from": at("01:00"),
            },
        ),
        (AFTER, {"zone": "Mars/Base"}),
        (AFTER, {"delay": "soon"}),
        (AFTER, {"queue": "fast lane"}),
    ],
)
def test_whatever_is_corrupt_stops_nobody(
    engine: sa.Engine, when: dict[str, str], corrupt: dict[str, Any]
):
    """
    Each kind of damage stays with its row, also where events are read together; what is
    said of it names no class of ours, and it is not looked at again.
    """
    since = at("07:00") if when == MINUTELY else at("06:00")
    bad, good = (
        post_at(engine, since, when=when, name=name, catch_up={"runs": "all"})
        for name in ("bad", "good")
    )
    add_event(engine, "ann", at("06:00"))
    edit_action(engine, bad, **corrupt)

    dispatcher = make_dispatcher(engine)
    report = tick(dispatcher, at("07:00"))

    user = None if when == MINUTELY else "ann"
    expected = make_operation_id(good, at("07:00"), user)
    assert [expected] == [r.id for r in fetch_all(engine) if r.action_uid == good]
    assert [bad] == [action.uid for action, _reason in report.quarantined]
    row = fetch_action(engine, bad)
    assert row.quarantined_at is not None
    assert "TimingModel" not in row.quarantine_reason
    assert () == tuple(tick(dispatcher, at("07:01")).quarantined)


def test_what_cannot_be_recorded_stops_nobody(engine: sa.Engine):
    """
    Recipients that an older version took, and this one does not: among a hundred
    actions that share a transaction one goes into quarantine, the others run.
    """
    first = post_at(engine, at("07:00"), when={"cron_rule": "0 7 * * *"})
    copy_action(engine, first, 99)
    bad = post_at(engine, at("06:00"), name="bad", when={"on": "app.x"})
    add_event(engine, "ann", at("06:59"))
    document = fetch_action(engine, bad).document
    edit_action(engine, bad, document={**document, "recipients": {"everybody": True}})

    report = tick(make_dispatcher(engine), at("07:00"))

    assert (101, 100, 100) == (report.due, report.recorded, report.sent)
    assert [bad] == [action.uid for action, _reason in report.quarantined]
    reason = fetch_action(engine, bad).quarantine_reason
    assert reason.startswith("'everybody' is not a known key.")


def refuse(dispatcher: Dispatcher, refused: set[str], error: Exception) -> NoFlights:
    """Return a dispatching that raises *error* for decisions about *refused*."""

    def dispatch(decisions: Sequence[Decision]) -> Dispatched:
        if any(decision.action_uid in refused for decision in decisions):
            raise error
        return dispatcher.dispatch(decisions)

    return NoFlights(dispatch, dispatcher.quarantine)


def test_values_that_the_database_refuses_stop_nobody(engine: sa.Engine):
    """The reason is what the database said, not the statement with a thousand rows."""
    first = post_at(engine, at("07:00"), when={"cron_rule": "0 7 * * *"})
    uids = copy_action(engine, first, 9)
    error = sa.exc.DataError("INSERT ...", {}, ValueError("no \0 in a text"))
    refusing = refuse(make_dispatcher(engine), {uids[3], uids[7]}, error)

    report = run_tick(at("07:00"), engine=engine, dispatcher=refusing)

    assert {uids[3], uids[7]} == {action.uid for action, _ in report.quarantined}
    assert (10, 8) == (report.due, report.recorded)
    reason = fetch_action(engine, uids[3]).quarantine_reason
    assert "ValueError: no \\0 in a text" == reason


def test_what_is_too_much_at_once_is_recorded_in_parts(engine: sa.Engine):
    """Limits of PostgreSQL are of the statement: less does not reach them."""
    first = post_at(engine, at("07:00"), when={"cron_rule": "0 7 * * *"})
    copy_action(engine, first, 9)
    dispatcher = make_dispatcher(engine)

    def dispatch(decisions: Sequence[Decision]) -> Dispatched:
        if len(decisions) > 3:
            limit = psycopg.errors.ProgramLimitExceeded("too many jsonb elements")
            raise sa.exc.OperationalError("INSERT ...", {}, limit)
        return dispatcher.dispatch(decisions)

    limited = NoFlights(dispatch, dispatcher.quarantine)
    report = run_tick(at("07:00"), engine=engine, dispatcher=limited)

    assert (10, 10, []) == (report.due, report.recorded, report.quarantined)


def test_a_schema_that_is_wrong_for_all_blames_nobody(engine: sa.Engine):
    """The tick fails as a whole, and quarantines nothing."""
    uid = post_at(engine, at("07:00"), when={"cron_rule": "0 7 * * *"})
    error = sa.exc.ProgrammingError("INSERT ...", {}, ValueError("no such column"))
    refusing = refuse(make_dispatcher(engine), {uid}, error)

    with pytest.raises(sa.exc.ProgrammingError):
        run_tick(at("07:00"), engine=engine, dispatcher=refusing)

    assert fetch_action(engine, uid).quarantined_at is None


@pytest.mark.parametrize("copies", [0, 1])
def test_what_fails_after_recording_blames_nobody(engine: sa.Engine, copies: int):
    """An unexpected error ends the tick; the rows wait for the next."""
    first = post_at(engine, at("07:00"), when={"cron_rule": "0 7 * * *"})
    for copy in range(copies):
        post_at(engine, at("07:00"), name=f"copy {copy}")
    sender = FakeSender(error=RuntimeError("a bug"))

    with pytest.raises(RuntimeError):
        tick(make_dispatcher(engine, sender), at("07:00"))

    assert ["pending"] * (1 + copies) == [row.state for row in fetch_all(engine)]
    assert fetch_action(engine, first).quarantined_at is None


def ask_for_turns(connection: sa.Connection, _due: DueAction) -> None:
    fetch_turns(connection, now=at("07:00"))


def ask_for_first_turns(connection: sa.Connection, _due: DueAction) -> None:
    """Ask who has been due for longest."""
    fetch_first_turns(connection, now=at("07:00"))


def ask_for_events(connection: sa.Connection, due: DueAction) -> None:
    """Ask what has happened, had the action that is due waited for it."""
    waiting = due._replace(event="app.x1", delay="PT1M")
    fetch_events(connection, [waiting], now=at("07:00"))


def ask_for_messages(connection: sa.Connection, _due: DueAction) -> None:
    fetch_sendable(connection, limit=10)


def register_many(engine: sa.Engine) -> None:
    """
    Register 400 actions, one of which is due, and as many events of all sorts.

    Where most of a table is asked for, which index serves it is a matter of taste, and
    PostgreSQL's changes with what other tests have left of its pages.
    """
    first = post_at(engine, at("09:00"), when=MINUTELY)
    copy_action(engine, first, 400)
    edit_action(engine, first, next_due_at=at("07:00"))
    for number in range(400):
        user_id = ("ann", "bob", "eve")[number % 3]
        instant = at("07:00") + number * MINUTE
        add_event(engine, user_id, instant, name=f"app.x{number % 20}")
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            outside = connection.execution_options(isolation_level="AUTOCOMMIT")
            outside.execute(sa.text("vacuum analyze"))


def test_cost_follows_what_is_due(engine: sa.Engine):
    """The queries of each wake are served by their indexes, whatever is registered."""
    register_many(engine)
    for ask, index in (
        (ask_for_turns, "ix_scheduled_actions_due"),
        (ask_for_first_turns, "ix_scheduled_actions_due"),
        (ask_for_events, "ix_events_app_name"),
        (ask_for_messages, "ix_operations_pending"),
    ):
        plans = explain(engine, ask)

        assert plans
        for plan in plans:
            assert index in plan, plan
            assert "SCAN operations" not in plan, plan
            assert "SCAN other\n" not in plan, plan


def explain(
    engine: sa.Engine, ask: Callable[[sa.Connection, DueAction], None]
) -> list[str]:
    """Return the plans of what *ask* executes: with bound parameters, as it does."""
    seen: list[tuple[str, Any]] = []
    now = at("07:00")
    with reading(engine) as connection:
        [due] = fetch_due(connection, fetch_turns(connection, now=now), now=now)
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("set local enable_seqscan = off"))
        sa.event.listen(
            connection,
            "before_cursor_execute",
            lambda _c, _cursor, text, given, *_rest: seen.append((text, given)),
        )
        ask(connection, due)
        word = {"postgresql": "explain", "sqlite": "explain query plan"}
        plans = []
        for text, given in tuple(seen):
            rows = connection.exec_driver_sql(
                f"{word[engine.dialect.name]} {text}", given
            )
            plans.append("\n".join(str(row[-1]) for row in rows))
        return plans
