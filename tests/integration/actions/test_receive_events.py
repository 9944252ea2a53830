"""Events that programs send: once each, all or none, and told what became of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from actions.receive_events import ReceivedEvents, receive_events
from models.database.engine import Author, writing
from models.database.tables import changes, events
from models.door.documents import read_cloud_event_object, read_event_object
from models.errors import InvalidDocumentError, NotFoundError
from models.fields.instants import format_instant
from tests.database import fetch_rows
from tests.scheduling import add_app, get_now

SEEN = "instance.user.last_seen"


pytestmark = pytest.mark.usefixtures("small_app")


def _cloud(**changed: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": "1",
        "source": "/shop",
        "type": "app.x",
        "subject": "ann",
        **changed,
    }


def _send(
    engine: sa.Engine,
    *sent: dict[str, Any],
    app: str = "app",
    read: Callable[[object], Any] = read_cloud_event_object,
) -> ReceivedEvents:
    models = [read(each) for each in sent]
    with writing(engine, author=Author("ann")) as connection:
        return receive_events(connection, app, models, is_list=len(sent) != 1)


def _outcomes(received: ReceivedEvents) -> list[str]:
    return [str(each.outcome) for each in received.events]


def _fetch(engine: sa.Engine, *columns: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in fetch_rows(engine, sa.select(*columns)).all()]


def test_same_source_and_id_are_the_same_event(engine: sa.Engine):
    """Whatever else it says the second time; it is answered with the same id."""
    first = _send(engine, _cloud())
    again = _send(engine, _cloud(subject="bob", type="app.y"))
    others = _send(engine, _cloud(id="2"), _cloud(source="/other"))

    assert ["recorded"] == _outcomes(first)
    assert ["known"] == _outcomes(again)
    assert first.events[0].id == again.events[0].id
    assert ["recorded", "recorded"] == _outcomes(others)
    kept = events.c
    assert {
        ("app.x", "ann", "/shop", "1"),
        ("app.x", "ann", "/shop", "2"),
        ("app.x", "ann", "/other", "1"),
    } == {*_fetch(engine, kept.name, kept.user_id, kept.source, kept.source_id)}


@pytest.mark.parametrize(
    ("pairs", "recorded"),
    [
        ([("/a", "1"), ("/a", "1"), ("/a", "2")], 2),
        ([("a | b", "c"), ("a", "b | c"), ('a", "b', "c"), ("a", 'b", "c')], 4),
    ],
    ids=["repeat", "separators"],
)
def test_events_of_one_batch_are_told_apart(
    engine: sa.Engine, pairs: list[tuple[str, str]], recorded: int
):
    """By source and id; all are answered. Another tenant's are none of this one's."""
    add_app(engine, "other", ids=["ann"])
    sent = [_cloud(source=source, id=id_) for source, id_ in pairs]
    _send(engine, *sent, app="other")

    received = _send(engine, *sent)

    assert (len(pairs), recorded) == (received.received, received.recorded)
    assert 2 * recorded == len(_fetch(engine, events.c.id))


def test_older_sign_of_life_is_outdated(engine: sa.Engine):
    now = get_now(engine)
    new, old = (
        _cloud(type=SEEN, id=f"{days}", time=format_instant(now - timedelta(days=days)))
        for days in (1, 2)
    )

    outcomes = [_outcomes(_send(engine, each)) for each in (new, old, old, new)]

    assert [["recorded"], ["outdated"], ["outdated"], ["known"]] == outcomes
    assert 1 == len(_fetch(engine, events.c.id))


def test_plain_form_has_outcomes_too(engine: sa.Engine):
    """Its key or its instant makes it the same."""
    plain = {"event": "app.x", "user": "ann", "key": "k"}

    outcomes = [
        _outcomes(_send(engine, plain, read=read_event_object)) for _ in range(2)
    ]

    assert [["recorded"], ["known"]] == outcomes


@pytest.mark.parametrize(
    ("change", "pointer", "message"),
    [
        ({"subject": "dan"}, "subject", "no user 'dan'"),
        ({"time": "2100-01-01T00:00:00Z"}, "time", "yet to come"),
    ],
)
def test_odd_event_stops_the_whole_batch(
    engine: sa.Engine, change: dict[str, str], pointer: str, message: str
):
    with pytest.raises(InvalidDocumentError) as one:
        _send(engine, _cloud(**change))
    with pytest.raises(InvalidDocumentError) as many:
        _send(engine, _cloud(id="2"), _cloud(**change))

    assert [f"/{pointer}"] == [each.pointer for each in one.value.problems]
    assert [f"/1/{pointer}"] == [each.pointer for each in many.value.problems]
    assert message in str(many.value)
    assert [] == _fetch(engine, events.c.id)


def test_plain_form_is_refused_by_its_own_names(engine: sa.Engine):
    """What is "subject" in one form is "user" in the other."""
    plain = {"event": "app.x", "user": "dan", "at": "2100-01-01T00:00:00Z"}

    with pytest.raises(InvalidDocumentError) as caught:
        _send(engine, plain, read=read_event_object)

    assert ["/user", "/at"] == [each.pointer for each in caught.value.problems]


def test_unknown_app_is_not_found(engine: sa.Engine):
    with pytest.raises(NotFoundError, match="no small app"):
        _send(engine, _cloud(), app="none")


def test_sending_is_noted_once(engine: sa.Engine):
    """With counts; a repeat that changes nothing is no change."""
    for _ in range(2):
        _send(engine, _cloud(), _cloud(id="2"))

    kept = changes.c
    assert [("event", "app", "sent", "app", {"received": 2, "recorded": 2})] == _fetch(
        engine, kept.kind, kept.subject, kept.change, kept.app, kept.after
    )


def test_empty_batch_is_received(engine: sa.Engine):
    """The specification allows it."""
    told = _send(engine)

    assert (0, 0, ()) == (told.received, told.recorded, told.events)
