"""Small apps become what their documents say, on both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from actions.posting.post import post_action
from actions.small_apps.app_row import PartChange
from actions.small_apps.apply import Applied
from models.database.tables import (
    app_documents,
    domain_versions,
    domains,
    events,
    holidays,
    memberships,
    scheduled_action_revisions,
    scheduled_actions,
    small_apps,
    templates,
    users,
)
from models.door.documents import read_action
from models.errors import ConflictError, InvalidDocumentError
from tests.database import execute, fetch_rows, note_statements, write_by
from tests.integration.actions.small_apps.shop import ADA, apply
from tests.scheduling import MONDAY

BOB = {"id": "bob@example.com"}
LAST_WEEK = "2026-11-16T06:00:00Z"


def _apply(
    engine: sa.Engine,
    *,
    folder: Path | None = None,
    raise_events: bool = False,
    **document: Any,
) -> Applied:
    return apply(engine, document, folder=folder, raise_events=raise_events)


def _fetch(engine: sa.Engine, *columns: Any) -> list[Any]:
    rows = fetch_rows(engine, sa.select(*columns).order_by(*columns)).all()
    return [row[0] if len(columns) == 1 else tuple(row) for row in rows]


def test_new_app_has_what_its_document_lists(engine: sa.Engine):
    applied = _apply(
        engine,
        name="Shop",
        timezone="Europe/Paris",
        users=[ADA, BOB],
        domains=[{"name": "sales", "source": {"url": "https://example.com/x.csv"}}],
        templates={"inactive": {"subject": "Hello", "text": "Hello"}},
        documents={"design": {"color": "red"}},
        holidays={"fr": ["2026-12-25"]},
    )

    assert applied.created
    assert {name: PartChange(1, 0, 0) for name in applied.parts} | {
        "users": PartChange(2, 0, 0)
    } == applied.parts
    assert [("Shop", "Europe/Paris")] == _fetch(
        engine, small_apps.c.name, small_apps.c.timezone
    )
    assert [("ada", "ada@example.com"), ("bob@example.com",) * 2] == _fetch(
        engine, users.c.id, users.c.email
    )
    assert [("manager", "ada")] == _fetch(
        engine, memberships.c.group_name, memberships.c.user_id
    )
    assert ["sales"] == _fetch(engine, domains.c.name)
    assert ["inactive"] == _fetch(engine, templates.c.name)
    assert ["design"] == _fetch(engine, app_documents.c.part)
    assert [("fr", 1)] == _fetch(engine, holidays.c.name, holidays.c.version)


def test_absent_parts_stay(engine: sa.Engine):
    _apply(engine, name="Shop", templates={"t": {"subject": "s", "text": "t"}})

    _apply(engine, users=[ADA])

    assert ["Shop"] == _fetch(engine, small_apps.c.name)
    assert ["t"] == _fetch(engine, templates.c.name)


@pytest.mark.parametrize("nobody", [None, {}, {"mail": []}])
def test_notices_are_switched_off_by_null_or_nothing(engine: sa.Engine, nobody: object):
    """Absent, they stay; null, an empty object or no address end them."""
    _apply(engine, notices={"mail": ["ann@example.org"]})
    _apply(engine, name="Shop")
    kept = _fetch(engine, small_apps.c.notices)

    _apply(engine, notices=nobody)

    assert [{"mail": ["ann@example.org"]}] == kept
    assert [None] == _fetch(engine, small_apps.c.notices)


def test_absent_fields_of_users_stay(engine: sa.Engine):
    _apply(engine, users=[{**ADA, "locale": "fr", "last_seen_at": LAST_WEEK}])

    applied = _apply(engine, users=[{"id": "ada", "disabled": True, "locale": None}])

    assert PartChange(0, 1, 0) == applied.parts["users"]
    assert [("ada@example.com", "Ada", None, True)] == _fetch(
        engine, users.c.email, users.c.name, users.c.locale, users.c.disabled
    )
    assert ["manager"] == _fetch(engine, memberships.c.group_name)


def test_unlisted_entries_go(engine: sa.Engine):
    _apply(
        engine,
        users=[ADA, BOB],
        domains=[{"name": "sales", "source": {"url": "https://x.org"}}],
        templates={"t": {"subject": "s", "text": "t"}},
    )
    version = {"app": "shop", "domain": "sales", "version": 1, "created_at": MONDAY}
    size = {"path": "x", "rows": 1, "bytes": 1, "sha256": ""}
    execute(engine, sa.insert(domain_versions), {**version, **size})

    applied = _apply(engine, users=[BOB], domains=[], templates={})

    assert dict.fromkeys(applied.parts, PartChange(0, 0, 1)) == applied.parts
    assert ["bob@example.com"] == _fetch(engine, users.c.id)
    for table in (memberships, domains, domain_versions, templates):
        assert [] == _fetch(engine, *list(table.c)[:1])


SALES_FILE = {"name": "sales", "source": {"file": "data/sales.csv"}}


def test_folder_of_files_is_stored_without_links(engine: sa.Engine, tmp_path: Path):
    """A worker anywhere on the host finds the files; no link moves the folder later."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    _apply(engine, domains=[SALES_FILE], folder=tmp_path / "link")

    assert [SALES_FILE["source"]] == _fetch_sources(engine)
    assert [f"{tmp_path}/real"] == _fetch(engine, small_apps.c.source_folder)


def test_document_alone_leaves_the_folder_as_it_is(engine: sa.Engine, tmp_path: Path):
    """A tenant's document never sets or widens it; files outside of it are refused."""
    outside = {"name": "sales", "source": {"file": "/etc/passwd"}}
    inside = {"name": "sales", "source": {"file": f"{tmp_path}/x.csv"}}
    with pytest.raises(InvalidDocumentError, match="apps apply DIR"):
        _apply(engine, domains=[SALES_FILE])
    _apply(engine, domains=[SALES_FILE], folder=tmp_path)

    _apply(engine, domains=[inside])
    with pytest.raises(InvalidDocumentError, match="not below"):
        _apply(engine, domains=[outside])

    assert [inside["source"]] == _fetch_sources(engine)
    assert [str(tmp_path)] == _fetch(engine, small_apps.c.source_folder)


def _fetch_sources(engine: sa.Engine) -> list[dict[str, str]]:
    # PostgreSQL has no order for JSON of this type in all versions
    return list(fetch_rows(engine, sa.select(domains.c.source)).scalars())


def test_events_are_raised_when_asked_for(engine: sa.Engine):
    """
    Who is new, activated or seen since is told to the actions that wait. A bulk import
    mails nobody, nor does a document that knows less than we do.
    """
    imported = _apply(engine, users=[{**ADA, "last_seen_at": "2026-11-09T06:00:00Z"}])
    seen = {**ADA, "last_seen_at": LAST_WEEK, "activated_at": LAST_WEEK}
    given = [seen, {**BOB, "created_at": LAST_WEEK}]
    raised = _apply(engine, users=given, raise_events=True)
    older = {**ADA, "last_seen_at": "2026-11-10T06:00:00Z"}
    outdated = _apply(engine, users=[older, BOB], raise_events=True)

    assert (0, 3, 0) == (imported.events, raised.events, outdated.events)
    assert [
        ("instance.user.activated", "ada"),
        ("instance.user.created", "bob@example.com"),
        ("instance.user.last_seen", "ada"),
    ] == _fetch(engine, events.c.name, events.c.user_id)
    assert datetime(2026, 11, 16, 6, tzinfo=UTC) in _fetch(engine, users.c.last_seen_at)


def post_excepting(engine: sa.Engine, calendar: str, uid: str) -> None:
    """Post an action that is due on a day of the calendar, if it has any."""
    document = {
        "name": uid,
        "uid": uid,
        "operations": {"send_execsum": True},
        "when": {"due_date": "2099-12-25T07:00:00Z"},
        "except": [{"calendar": calendar}],
        "recipients": {"groups": ["all"]},
    }
    write_by(engine, post_action, "shop", read_action(json.dumps(document)))


def test_changed_holidays_move_the_actions_that_name_them(engine: sa.Engine):
    """
    A new holiday moves the next occurrence, as a revision of its own; an action
    that names another calendar keeps its revision.
    """
    _apply(engine, holidays={"fr": [], "de": []})
    for name in ("fr", "de"):
        post_excepting(engine, name, name)

    applied = _apply(engine, holidays={"fr": ["2099-12-25"], "de": []})

    assert ("fr",) == applied.retimed
    due = dict(_fetch(engine, scheduled_actions.c.uid, scheduled_actions.c.next_due_at))
    assert {"fr": None, "de": datetime(2099, 12, 25, 7, tzinfo=UTC)} == due
    kept = scheduled_action_revisions.c
    assert [("de", 1, "posted"), ("fr", 1, "posted"), ("fr", 2, "holidays")] == _fetch(
        engine, kept.uid, kept.revision, kept.change
    )
    versions = _fetch(engine, holidays.c.name, holidays.c.version)
    assert [("de", 1), ("fr", 1), ("fr", 2)] == versions


def test_only_actions_that_name_a_changed_calendar_are_locked(engine: sa.Engine):
    """The tick waits for no other; and many are retimed in a few statements."""
    _apply(engine, holidays={"fr": [], "de": []})
    for number in range(10):
        name = "fr" if number < 8 else "de"
        post_excepting(engine, name, f"{name}-{number}")
    locked: list[str] = []
    written: list[str] = []

    def listen(*given: Any) -> None:
        text = " ".join(given[2].split())
        if "FROM scheduled_actions WHERE scheduled_actions.uid IN" in text:
            locked.append(str(given[3]))
        if text.startswith("UPDATE scheduled_actions"):
            written.append(text)

    sa.event.listen(engine, "before_cursor_execute", listen)

    applied = _apply(engine, holidays={"fr": ["2099-12-25"], "de": []})

    assert tuple(f"fr-{number}" for number in range(8)) == applied.retimed
    assert 1 == len(locked) == len(written)
    assert "fr-7" in locked[0]
    assert "de-8" not in locked[0]


def test_action_that_cannot_be_read_is_left_as_it_is(engine: sa.Engine):
    """A gap of a new tz database does not keep its app from change."""
    _apply(engine, holidays={"fr": []})
    post_excepting(engine, "fr", "lost")
    (document,) = fetch_rows(engine, sa.select(scheduled_actions.c.document)).scalars()
    gap = {"due_date": "2027-03-28T02:30", "timezone": "Europe/Paris"}
    execute(
        engine, sa.update(scheduled_actions).values(document={**document, "when": gap})
    )

    applied = _apply(engine, holidays={"fr": ["2099-12-25"]})

    assert () == applied.retimed


def test_unlisted_calendar_becomes_empty(engine: sa.Engine):
    """A calendar that actions may name stays, with a version without days."""
    _apply(engine, holidays={"fr": ["2026-12-25"]})

    applied = _apply(engine, holidays={})

    assert PartChange(0, 0, 1) == applied.parts["holidays"]
    assert [("fr", 1), ("fr", 2)] == _fetch(engine, holidays.c.name, holidays.c.version)


def test_many_users_are_few_statements(engine: sa.Engine):
    statements = note_statements(engine)
    many = [{"id": f"u{number}", "groups": ["all"]} for number in range(3_000)]

    applied = _apply(engine, users=many)

    assert PartChange(3_000, 0, 0) == applied.parts["users"]
    assert 30 > len(statements)


def test_the_schedulers_own_app_is_refused(engine: sa.Engine):
    with pytest.raises(ConflictError, match="scheduler's own"):
        _apply(engine, uid="minutehand")
