"""One user of a small app is read, put, patched and deleted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from actions.small_apps.change_users import (
    NO_TAG,
    StoredUser,
    delete_user,
    patch_user,
    replace_user,
)
from actions.small_apps.export import KnownUser, fetch_known_user
from actions.user_events import NewEvent, record_events
from models.database.engine import writing
from models.database.tables import events
from models.door.app_documents import read_user_object
from models.errors import InvalidDocumentError, NotFoundError, StaleError
from models.event import EventName
from tests.database import fetch_rows, is_waiting_for_lock, read_by, write_by
from tests.integration.actions.small_apps.shop import (
    ADA,
    AUTHOR,
    apply,
    export,
    fetch_changes,
)
from tests.servers import wait_until

SEEN, LATER = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def _put(
    engine: sa.Engine, user: dict[str, Any], user_id: str = "ada", **options: Any
) -> StoredUser:
    with writing(engine, author=AUTHOR) as connection:
        model = read_user_object(user, user_id=user_id)
        return replace_user(connection, "shop", model, **options)


def _patch(engine: sa.Engine, patch: Any, **options: Any) -> StoredUser:
    with writing(engine, author=AUTHOR) as connection:
        return patch_user(connection, "shop", "ada", patch, **options)


def _get(engine: sa.Engine, user_id: str = "ada") -> KnownUser:
    return read_by(engine, fetch_known_user, "shop", user_id)


def _names(engine: sa.Engine) -> list[tuple[str, str]]:
    query = sa.select(events.c.name, events.c.user_id).order_by(events.c.name)
    return [tuple(row) for row in fetch_rows(engine, query)]


def test_put_makes_a_user(engine: sa.Engine):
    """The id may be left out; one that looks like an address is the address."""
    apply(engine, {})

    ada = _put(engine, {k: v for k, v in ADA.items() if k != "id"})
    bob = _put(engine, {}, "bob@example.com")

    assert ada.created
    assert bob.created
    assert {**ADA, "groups": ["manager"]}.items() <= ada.user.as_document().items()
    assert "bob@example.com" == bob.user.email
    assert bob.user.created_at is not None


def test_put_replaces_all_but_what_events_write(engine: sa.Engine):
    """What is absent is cleared; when somebody was seen stays unless it is null."""
    apply(engine, {"users": [{**ADA, "disabled": True, "last_seen_at": SEEN}]})

    stored = _put(engine, {"email": "ada@example.org"})

    assert not stored.created
    told = stored.user
    assert ("ada@example.org", None, (), False) == (
        told.email,
        told.name,
        told.groups,
        told.disabled,
    )
    assert told.last_seen_at is not None
    assert _put(engine, {"last_seen_at": None}).user.last_seen_at is None


def test_patch_changes_what_it_has(engine: sa.Engine):
    apply(engine, {"users": [{**ADA, "locale": "fr", "last_seen_at": SEEN}]})

    told = _patch(engine, {"locale": None, "groups": ["a", "b"]}).user

    assert (None, ("a", "b"), "Ada") == (told.locale, told.groups, told.name)
    assert told.last_seen_at is not None
    told = _patch(engine, {"last_seen_at": None, "groups": None}).user
    assert (None, ()) == (told.last_seen_at, told.groups)


@pytest.mark.parametrize("patch", [{"emial": "x"}, {"disabled": 3}, [], {"id": "eve"}])
def test_patch_passes_the_door(engine: sa.Engine, patch: object):
    """A typo, a wrong type, no object, another id: refused, and nothing changes."""
    apply(engine, {"users": [ADA]})
    before = _get(engine)

    with pytest.raises(InvalidDocumentError):
        _patch(engine, patch)

    assert before == _get(engine)


def test_tag_names_what_was_read(engine: sa.Engine):
    apply(engine, {"users": [ADA]})
    tag = _get(engine).tag

    fresh = _patch(engine, {"disabled": True}, expected_tag=tag).user.tag

    assert tag != fresh
    for change in (
        lambda: _patch(engine, {"disabled": False}, expected_tag=tag),
        lambda: _put(engine, {}, expected_tag=tag),
        lambda: _put(engine, {}, expected_tag=NO_TAG),
        lambda: _put(engine, {}, "new", expected_tag=tag),
    ):
        with pytest.raises(StaleError):
            change()
    assert fresh == _get(engine).tag
    assert _put(engine, {}, "new", expected_tag=NO_TAG).created


@pytest.mark.parametrize(
    "first",
    [
        lambda connection: patch_user(connection, "shop", "ada", {"name": "first"}),
        lambda connection: record_events(
            connection, [NewEvent("shop", EventName.USER_LAST_SEEN, "ada")]
        ),
    ],
    ids=["change", "event"],
)
def test_second_change_waits_for_the_first(
    postgres_engine: sa.Engine, first: Callable[[sa.Connection], object]
):
    """So it knows that the version it is of is no more."""
    apply(postgres_engine, {"users": [ADA]})
    tag = _get(postgres_engine).tag
    with ThreadPoolExecutor(1) as pool:
        with writing(postgres_engine, author=AUTHOR) as connection:
            first(connection)
            change = {"name": "second"}
            second = pool.submit(_patch, postgres_engine, change, expected_tag=tag)
            wait_until(
                lambda: second.done() or is_waiting_for_lock(postgres_engine),
                what="the second change",
            )
        with pytest.raises(StaleError):
            second.result()


def test_edits_raise_the_revision_of_the_app(engine: sa.Engine):
    """Who applies an older document is told; no change is no edit."""
    apply(engine, {"users": [ADA]})
    for _ in range(2):
        _patch(engine, {"disabled": True})
        _put(engine, {"name": "Bob"}, "bob")
    with writing(engine, author=AUTHOR) as connection:
        delete_user(connection, "shop", "bob")

    with pytest.raises(StaleError) as caught:
        apply(engine, {"users": [ADA]}, expected_revision=1)

    assert 4 == caught.value.current
    assert [
        ("user", "ada", "changed"),
        ("user", "bob", "created"),
        ("user", "bob", "deleted"),
    ] == [(row.kind, row.subject, row.change) for row in fetch_changes(engine)[1:]]


def test_change_is_noted_with_what_it_was(engine: sa.Engine):
    apply(engine, {"users": [ADA]})
    _patch(engine, {"disabled": True, "groups": ["boss"], "name": "Ada"})

    row = fetch_changes(engine)[-1]

    assert {"disabled": False, "groups": ["manager"]} == row.before
    assert {"disabled": True, "groups": ["boss"]} == row.after
    assert ("ann", "k1", "r1", "shop") == (row.by, row.key_id, row.request_id, row.app)


def test_events_are_raised_when_asked_for(engine: sa.Engine):
    """As when a whole document is applied: not unless somebody wants it."""
    apply(engine, {})
    _put(engine, {"last_seen_at": SEEN})
    assert [] == _names(engine)

    stored = _patch(engine, {"last_seen_at": LATER}, raise_events=True)
    _put(engine, {}, "bob", raise_events=True)

    assert 1 == stored.events
    assert [
        ("instance.user.created", "bob"),
        ("instance.user.last_seen", "ada"),
    ] == _names(engine)
    assert "2026-02-01" in str(_get(engine).last_seen_at)


def test_others_stay(engine: sa.Engine):
    eve = {"id": "eve", "groups": ["manager"]}
    apply(engine, {"users": [ADA, eve]})
    apply(engine, {"uid": "other", "users": [ADA]})
    other = export(engine, "other")

    _put(engine, {"name": "Ada L"})
    write_by(engine, delete_user, "shop", "ada")

    assert ["eve"] == [each["id"] for each in export(engine)["users"]]
    assert ("manager",) == _get(engine, "eve").groups
    assert other == export(engine, "other")


def test_what_is_not_there_is_not_found(engine: sa.Engine):
    with pytest.raises(NotFoundError, match="no small app"):
        _put(engine, {})
    apply(engine, {"users": [ADA]})
    for change in (
        lambda connection: delete_user(connection, "shop", "eve"),
        lambda connection: patch_user(connection, "shop", "eve", {}),
    ):
        with pytest.raises(NotFoundError):
            write_by(engine, change)
