"""What an action would do, shown before it is posted."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from actions.posting.edit import Terms
from models.database.tables import small_apps, users
from models.errors import InvalidDocumentError, NotFoundError
from overview.previews import FullPreview, PreviewTerms, preview_text
from tests.database import execute, read_by
from tests.scheduling import (
    MONDAY,
    REFRESH,
    add_app,
    edit_action,
    fetch_action,
    find_far_hour,
    get_now,
    make_document,
    post,
)

TOKYO = ZoneInfo("Asia/Tokyo")
MAIL = {"send_email": {"template": "t"}}


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine) -> None:
    """Give every test a small app in Paris, and another app."""
    add_app(engine, "other")
    add_app(engine, ids=["ann", "bob"])
    execute(engine, sa.update(small_apps).values(timezone="Europe/Paris"))


def ask(
    engine: sa.Engine, document: Any, *, app: str | None = "app", **asked: Any
) -> FullPreview:
    """Return what is shown of *document*, which may be written by hand."""
    text = document if isinstance(document, str) else json.dumps(document)
    how = PreviewTerms(TOKYO, **asked)
    return read_by(engine, preview_text, app, text, terms=Terms(), asked=how)


def test_whole_action_is_previewed(engine: sa.Engine):
    """When it runs, on which queue, for how many, and what may be wrong."""
    document = make_document(
        operations=REFRESH | MAIL, recipients={"groups": ["all", "nobodies"]}
    )

    shown = ask(engine, document, count=2)

    assert "Every day at 07:00, Europe/Paris" == shown.sentence
    first, _second = shown.occurrences
    assert ("Europe/Paris", "Asia/Tokyo") == (first.zone, first.viewer_zone)
    assert "heavy" == shown.queue
    who = shown.recipients
    assert who is not None
    assert (2, False, ()) == (who.count, who.on_event, who.left_out)
    assert ["ann", "bob"] == [each.user for each in who.first]
    assert ["/operations/send_email/template", "/recipients/groups/1"] == [
        each.pointer for each in shown.warnings
    ]
    assert shown.changes is None


@pytest.mark.parametrize("app", ["app", None])
@pytest.mark.parametrize(
    "when",
    [
        {"cron_rule": "0 7 * * *", "timezone": "UTC"},
        [{"cron_rule": "0 7 * * *"}, {"cron_rule": "0 8 * * *"}],
    ],
)
def test_when_alone_is_previewed(engine: sa.Engine, when: Any, app: str | None):
    """Neither queue nor recipients follow from it."""
    shown = ask(engine, {"when": when, "jitter": "PT5M"}, app=app, count=3)

    assert 3 == len(shown.occurrences)
    assert (None, None, ()) == (shown.queue, shown.recipients, shown.warnings)


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"when": {"cron_rule": "61 * * * *"}}, "/when/cron_rule"),
        ({"jitter": "PT5M"}, "/when"),
        ({"when": {"cron_rule": "* * * * *"}, "label": "x"}, "/label"),
        ([], ""),
        ({"name": "x", "when": {"cron_rule": "* * * * *"}}, "/operations"),
        (
            {"when": {"cron_rule": "* * * * *"}, "except": [{"calendar": "fr"}]},
            "/except/0/calendar",
        ),
    ],
)
def test_bad_document_is_refused_like_a_post(
    engine: sa.Engine, document: Any, pointer: str
):
    """With pointers into what was sent."""
    with pytest.raises(InvalidDocumentError) as caught:
        ask(engine, document)

    assert pointer == caught.value.problems[0].pointer


def test_edit_is_compared_with_what_is_stored(engine: sa.Engine):
    """What it adds, removes and moves in the next 30 days."""
    hour = find_far_hour(engine)
    uid = post(engine, when={"cron_rule": f"0 {hour} * * *", "timezone": "UTC"}).uid
    later = {"when": {"cron_rule": f"0 {hour + 1} * * *", "timezone": "UTC"}}

    changes = ask(engine, later, uid=uid).changes

    assert changes is not None
    assert ((), ()) == (changes.added, changes.removed)
    assert 30 == len(changes.moved)
    with pytest.raises(NotFoundError):
        ask(engine, later, uid=uid, app="other")


def test_event_driven_action_has_no_dates(engine: sa.Engine):
    """Its recipients are those whose events would trigger it."""
    document = make_document(operations=MAIL, when={"on": "instance.user.created"})

    shown = ask(engine, document)

    assert () == shown.occurrences
    who = shown.recipients
    assert who is not None
    assert (2, True) == (who.count, who.on_event)


def test_what_a_post_would_refuse_is_told(engine: sa.Engine):
    """With its place in the text; an edit may keep its own name and its passed date."""
    taken = post(engine, name="taken").uid
    once = {"due_date": "2026-01-05T09:00:00", "timezone": "UTC"}
    text = '{\n"name": "taken",\n"operations": {"maintenance": true},\n"when": %s}'

    found = ask(engine, text % json.dumps(once))
    own = ask(engine, make_document(name="taken"), uid=taken)
    other = ask(engine, make_document(uid="another"), uid=taken, app=None)

    places = [(each.pointer, each.line) for each in found.refusals]
    assert [("/name", 2), ("/when/due_date", 4)] == places
    assert f"(uid {taken})" in found.refusals[0].message
    assert () == own.refusals
    assert ["/uid"] == [each.pointer for each in other.refusals]


@pytest.mark.parametrize("quarantined_at", [None, MONDAY])
def test_what_takes_effect_anew_must_not_have_passed(
    engine: sa.Engine, quarantined_at: datetime | None
):
    """A due date that ran may stay, but not to end a quarantine."""
    date = get_now(engine).replace(microsecond=0) + timedelta(days=1)
    rule = {"due_date": date.isoformat(), "timezone": "UTC"}
    once = make_document(when=rule)
    uid = post(engine, **once).uid
    passed = (date - timedelta(days=9)).isoformat()
    timing = fetch_action(engine, uid).timing.replace(date.isoformat(), passed)
    edit_action(engine, uid, timing=timing, quarantined_at=quarantined_at)
    document = {**once, "when": {**rule, "due_date": passed}}

    told = [each.pointer for each in ask(engine, document, uid=uid).refusals]
    try:
        post(engine, uid=uid, replace_it=True, **document)
        refused = []
    except InvalidDocumentError as error:
        refused = [each.pointer for each in error.problems]

    assert (["/when/due_date"] if quarantined_at else []) == refused
    assert refused == told


def test_warnings_have_a_place_and_what_was_meant(engine: sa.Engine):
    """So that an editor can show them, and put them right."""
    document = make_document(operations=MAIL, recipients={"users": ["anne"]})

    (_template, user) = ask(engine, document).warnings

    assert ("/recipients/users/0", 1, "ann") == (user.pointer, user.line, user.instead)


def test_users_who_are_left_out_are_counted(engine: sa.Engine):
    """Those whom the action names, and why each gets no mail."""
    of = {"app": "app", "email": "x@x"}
    new = {**of, "id": "new", "activated_at": None, "disabled": False}
    off = {**of, "id": "off", "activated_at": MONDAY, "disabled": True}
    execute(engine, sa.insert(users), [new, off])
    document = make_document(operations=MAIL, recipients={"groups": ["all"]})

    who = ask(engine, document).recipients

    assert who is not None
    assert 2 == who.count
    assert [("inactive", 1), ("inactivated", 1)] == [
        (each.standing, each.count) for each in who.left_out
    ]
    assert ["new", "off"] == [each.user for each in who.first_left_out]
