"""A refresh that somebody asks for is an operation like any other."""

from __future__ import annotations

from uuid import UUID

import pytest
import sqlalchemy as sa

from dispatch.manual_runs import REFRESH_NAME, refresh_now
from dispatch.upkeep import do_all
from models.database.engine import Author, writing
from models.database.tables import scheduled_actions
from models.errors import ConflictError, NotFoundError
from models.operation_state import Overlap
from operations.record import QUEUE_LIMIT
from tests.database import fetch_rows, note_statements, write_by
from tests.integration.operations.staging import add_domains
from tests.scheduling import (
    FakeSender,
    count_revisions,
    edit,
    fetch_all,
    fetch_noted,
    get,
    get_now,
    make_dispatcher,
    make_operation,
    must_claim,
    post,
    record_all,
    tick,
)


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine) -> None:
    """Give every test an app with two domains."""
    add_domains(engine, "a", "b")


def _refresh(
    engine: sa.Engine, *names: str, force: bool = False, request: str | None = None
) -> UUID:
    with writing(engine, author=Author("ann")) as connection:
        begun = refresh_now(
            connection, "app", names or None, by="ann", force=force, request=request
        )
        return begun.operation_id


def test_same_request_is_the_same_refresh(engine: sa.Engine):
    """Its answer may have got lost; it is not noted a second time either."""
    first = _refresh(engine, "a", request="digest")

    assert first == _refresh(engine, "a", request="digest")
    assert first != _refresh(engine, "a", request="other")
    assert 2 == len(fetch_noted(engine, "data"))


def test_worker_gets_what_was_asked_for(engine: sa.Engine):
    """Each operation has its own domains, whatever was asked for since."""
    ids = [_refresh(engine, "a"), _refresh(engine, force=True), _refresh(engine, "b")]

    asked = []
    for operation_id in ids:
        claimed = must_claim(engine, operation_id)
        asked.append((claimed.document["operations"], claimed.details.get("force")))
        edit(engine, operation_id, state="succeeded", claim_token=None)
    assert [
        ({"refresh": {"domains": ["a"]}}, None),
        ({"refresh": True}, True),
        ({"refresh": {"domains": ["b"]}}, None),
    ] == asked


def test_one_is_sent_after_the_other(engine: sa.Engine):
    """They share the staging of the app, so the second waits for the first."""
    first, second = _refresh(engine, "a"), _refresh(engine, "b")
    sender = FakeSender()
    dispatcher = make_dispatcher(engine, sender)
    do_all(dispatcher.send_waiting)
    assert [first] == sender.ids

    edit(engine, first, state="succeeded")
    do_all(dispatcher.send_waiting)

    assert [first, second] == sender.ids
    row = get(engine, second)
    assert ("heavy", "manual") == (row.queue, row.trigger)


def test_action_is_made_once(engine: sa.Engine):
    """The same request again makes no revision of it; it runs at no tick."""
    for names in (["a"], ["a"], ["b"]):
        _refresh(engine, *names)
    (row,) = fetch_rows(engine, sa.select(scheduled_actions)).all()

    tick(make_dispatcher(engine), get_now(engine))

    assert (REFRESH_NAME, False) == (row.name, row.active)
    assert 2 == count_revisions(engine, row.uid)
    assert 3 == len(fetch_all(engine))


def test_name_that_an_admin_took_is_left_alone(engine: sa.Engine):
    """Their action is not replaced, and the message says what to do."""
    post(engine, name=REFRESH_NAME)

    with pytest.raises(ConflictError, match="Rename it"):
        _refresh(engine)

    assert [] == fetch_all(engine)


def test_too_many_are_refused(engine: sa.Engine):
    """A refusal leaves no row."""
    uid = get(engine, _refresh(engine)).action_uid
    waiting = {"action_uid": uid, "overlap": Overlap.QUEUE}
    others = range(QUEUE_LIMIT - 1)
    record_all(engine, *(make_operation(number, **waiting) for number in others))

    with pytest.raises(ConflictError, match="too many"):
        _refresh(engine)

    assert QUEUE_LIMIT == len(fetch_all(engine))


def test_what_is_not_there_is_not_refreshed(engine: sa.Engine):
    """A domain, an app, an app without domains."""
    with pytest.raises(NotFoundError, match="no domain 'c'"):
        _refresh(engine, "a", "c")
    with pytest.raises(NotFoundError):
        write_by(engine, refresh_now, "none", None, by="ann")
    add_domains(engine, app="bare")
    with pytest.raises(ConflictError, match="no domains"):
        write_by(engine, refresh_now, "bare", None, by="ann")


def test_app_is_locked_before_its_action(engine: sa.Engine):
    """As by a pause and a deletion, with which it would deadlock otherwise."""
    _refresh(engine, "a")
    asked = note_statements(engine)

    _refresh(engine, "b")

    texts = [" ".join(text.split()) for text in asked]
    begin = ("SELECT small_apps.paused_at,", "SELECT scheduled_actions.uid,")
    pause, action = (
        next(number for number, text in enumerate(texts) if text.startswith(words))
        for words in begin
    )
    assert pause < action


def test_request_is_noted(engine: sa.Engine):
    """Who asked for what, and the operation that does it."""
    operation_id = _refresh(engine, "a")

    (row,) = fetch_noted(engine, "data")
    assert ("app", "refresh asked for", "ann") == (row.subject, row.change, row.by)
    assert {"operation": str(operation_id), "domains": ["a"], "force": False} == (
        row.after
    )
