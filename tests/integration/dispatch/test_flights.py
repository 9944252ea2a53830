"""A tick whose chunks fly: what is recorded and sent, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

import actions.due_rows
import actions.tick
from actions.due_rows import stream_turns
from actions.pausing.queues import pause_queue
from dispatch.manual_runs import run_now
from models.occurrence import make_operation_id
from models.operation_state import Queue
from operations.sending.order import Message
from tests.database import write_by
from tests.flying import NOW, assert_all_sent_once, fly, make_due, once
from tests.scheduling import (
    MINUTELY,
    FakeSender,
    Hooked,
    add_app,
    add_event,
    at,
    copy_action,
    count_states,
    edit_action,
    fetch_all,
    make_dispatcher,
    post_at,
)

pytestmark = pytest.mark.usefixtures("small_app")


# -- what is sent --------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_messages_are_made_of_what_is_committed(engine: sa.Engine, count: int):
    """Whoever gets a message finds its operation; each is sent once, and marked."""
    make_due(engine, count)

    class Looking(FakeSender):
        def send(self, messages: Sequence[Message]) -> None:
            known = {row.id for row in fetch_all(engine)}
            assert {message.id for message in messages} <= known
            super().send(messages)

    sender = Looking()
    dispatcher = make_dispatcher(engine, sender)
    report = fly(dispatcher, engine)

    assert (count, count, count) == (report.due, report.recorded, report.sent)
    assert_all_sent_once(engine, sender, count)
    assert not dispatcher.outbox.has_news


def test_manual_run_overtakes_what_is_still_to_be_decided(engine: sa.Engine):
    """Somebody waits for it: the next flight finds it, and sends it first."""
    uids = make_due(engine, 9)
    sender = FakeSender()
    asked: list[Any] = []
    hooked = Hooked(
        make_dispatcher(engine, sender),
        in_flight=once(lambda: asked.append(run_now(engine, uids[0], key="now"))),
    )

    fly(hooked, engine)

    (batch,) = [
        number
        for number, each in enumerate(sender.batches)
        if asked[0] in {message.id for message in each}
    ]
    assert asked[0] == sender.batches[batch][0].id
    assert batch < len(sender.batches) - 1
    assert_all_sent_once(engine, sender, 10)


def test_queue_that_is_paused_meanwhile_gets_nothing_more(engine: sa.Engine):
    """What was found before is sent; the rest is recorded, and waits."""
    make_due(engine, 9)
    sender = FakeSender()

    def pause() -> None:
        write_by(engine, pause_queue, Queue.TASKS)

    hooked = Hooked(make_dispatcher(engine, sender), in_flight=once(pause))
    report = fly(hooked, engine)

    assert (9, 4) == (report.recorded, report.sent)
    assert {"queued": 4, "pending": 5} == count_states(engine)


def test_events_and_filters_count_in_flight(engine: sa.Engine):
    """An operation for each event; none of a user whom the recipients exclude."""
    when = {"on": "app.x"}
    uids = [
        post_at(engine, at("06:00"), name=f"all {number}", when=when)
        for number in range(5)
    ]
    only = [
        post_at(
            engine,
            at("06:00"),
            name=f"bob {number}",
            when=when,
            recipients={"users": ["bob"]},
        )
        for number in range(4)
    ]
    add_event(engine, "ann", at("06:58"))
    add_event(engine, "bob", at("06:59"))
    sender = FakeSender()

    report = fly(make_dispatcher(engine, sender), engine)

    expected = {
        *(make_operation_id(uid, at("06:58"), "ann") for uid in uids),
        *(make_operation_id(uid, at("06:59"), "bob") for uid in uids + only),
    }
    assert (9, 14, 14) == (report.due, report.recorded, report.sent)
    assert expected == set(sender.ids)
    assert_all_sent_once(engine, sender, 14)


# -- turns ---------------------------------------------------------------------


def test_apps_take_turns_from_the_second_chunk_on(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """However many of one app have been due for longer."""
    monkeypatch.setattr(actions.due_rows, "FIRST_TURNS", 4)
    monkeypatch.setattr(actions.tick, "FIRST_TURNS", 4)
    add_app(engine, "small")
    first = make_due(engine, 8, when=MINUTELY, next_due_at=at("06:59"))[0]
    for uid in copy_action(engine, first, 3, app="small", prefix="small"):
        edit_action(engine, uid, next_due_at=NOW)
    sender = FakeSender()

    report = fly(make_dispatcher(engine, sender), engine)

    assert (11, 19) == (report.due, report.sent)
    apps = {row.id: (row.app, row.action_uid) for row in fetch_all(engine)}
    decided = list(dict.fromkeys(apps[each] for each in sender.ids))
    chunks = zip(decided[::2], decided[1::2], strict=False)
    assert [{"app"}, *3 * [{"app", "small"}], {"app"}] == [
        {app for app, _uid in chunk} for chunk in chunks
    ]


def test_each_turn_comes_once_though_actions_change(engine: sa.Engine):
    """What is decided moves on, and may be due again at once; nobody is left out."""
    uids = make_due(engine, 10)
    seen: list[str] = []

    for uid in stream_turns(engine, now=NOW):
        seen.append(uid)
        edit_action(engine, uid, next_due_at=NOW + timedelta(days=1))
        edit_action(engine, seen[0], next_due_at=NOW)

    assert sorted(uids) == sorted(seen)


def test_chunk_of_which_nothing_is_due_any_more_does_not_fly(engine: sa.Engine):
    """What was moved before it was read is passed over, and no flight fails for it."""
    uids = make_due(engine, 9)
    sender = FakeSender()

    @once
    def move_all_but_the_first() -> None:
        recorded = {row.action_uid for row in fetch_all(engine)}
        for uid in set(uids) - recorded:
            edit_action(engine, uid, next_due_at=NOW + timedelta(hours=1))

    hooked = Hooked(
        make_dispatcher(engine, sender), before_launch=move_all_but_the_first
    )
    with capture_logs() as logs:
        report = fly(hooked, engine)

    # The second chunk was decided before.
    assert (4, 4, 4) == (report.due, report.recorded, report.sent)
    assert 1 == hooked.launches
    assert [] == [entry for entry in logs if entry["event"] == "flight_failed"]
    assert_all_sent_once(engine, sender, 4)
