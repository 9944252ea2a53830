"""A small app is made, changed and deleted on its pages."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from actions.small_apps.export import fetch_document
from models.role import Role
from tests.database import read_by
from tests.integration.api.prepared import Prepared
from tests.integration.web.conftest import Person, enter_as

DOMAIN = {"name": "stock", "source.url": "https://example.com/stock.csv"}
LETTER = {"name": "letter", "subject": "Hello", "text": "Hello {{ user.name }}"}
DAYS = {"name": "uk", "days": "2026-12-25\n2026-12-28 to 2027-01-01\n"}
ADA = {"id": "ada2", "name": "Ada", "groups": "manager, board", "disabled": "1"}


def save(admin: Person, path: str, fields: dict[str, Any]) -> httpx2.Response:
    """Send the form at *path* as a browser does that shows it."""
    text = admin.look(path).partition('name="seen"')[2]
    inputs = re.findall(r'name="([^"]+)" type="text" value="([^"]*)"', text)
    areas = re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n([^<]*)<', text)
    (seen,) = re.findall(r'\A value="([^"]*)"', text)
    stored = {**dict(inputs), **dict(areas), "seen": seen}
    return admin.client.post(path, data={**stored, **fields})


def read(engine: sa.Engine, app: str = "shop") -> Any:
    return read_by(engine, fetch_document, app)


@pytest.mark.parametrize(
    ("part", "fields", "stored"),
    [
        ("users", ADA, {"id": "ada2", "groups": ["board", "manager"]}),
        ("domains", DOMAIN, {"source": {"url": "https://example.com/stock.csv"}}),
        ("templates", LETTER, {"subject": "Hello", "text": "Hello {{ user.name }}"}),
        (
            "holidays",
            DAYS,
            ["2026-12-25", {"from": "2026-12-28", "until": "2027-01-01"}],
        ),
    ],
)
def test_entries_are_added_changed_and_deleted(
    admin: Person, engine: sa.Engine, part: str, fields: dict[str, str], stored: Any
):
    """What others are in the part stays; and what the form has no field for."""
    before = read(engine)
    place = f"/apps/shop/parts/{part}"
    key, name = next(iter(fields.items()))
    at = f"{place}?name={name}"

    added = save(admin, place, fields)
    assert 303 == added.status_code, added.text[-3000:]
    after = read(engine)
    found = after[part]
    if isinstance(found, list):
        (made,) = (each for each in found if each[key] == name)
        assert stored.items() <= made.items()
    else:
        assert stored == found[name]
    assert {**after, part: before[part]} == before
    assert len(before[part]) + 1 == len(found)

    again = save(admin, place, fields)
    # a user's name is an address of the API, where its entity tag decides
    assert (412 if part == "users" else 422) == again.status_code
    assert "already. Change that one, or choose another" in again.text
    kept = {each: value for each, value in fields.items() if each != key}
    assert 303 == save(admin, at, kept).status_code
    assert read(engine) == after

    assert "Deleted" in admin.do(f"{place}/delete?name={name}")
    gone = {**before["holidays"], "uk": []} if part == "holidays" else before[part]
    assert read(engine) == {**before, part: gone}


MISTAKES: tuple[tuple[str, dict[str, str], str], ...] = (
    ("users", {"id": "x", "email": "ada"}, "field-email\">'ada' is not a mail"),
    ("domains", {**DOMAIN, "source.url": "x"}, 'href="#field-source.url"'),
    ("domains", {**DOMAIN, "columns": "{"}, 'href="#field-columns"'),
    ("domains", {"name": "stock"}, "exactly one of"),
    ("templates", {**LETTER, "text": "{{ a }"}, "Line 1: "),
    ("holidays", {**DAYS, "days": "2026-13-01"}, 'href="#field-days"'),
    ("settings", {"timezone": "Paris"}, "Did you mean 'Europe/Paris'"),
    ("settings", {"mail.reply_to": "x"}, 'href="#field-mail.reply_to"'),
    ("settings", {"notices.webhook": "http://10.0.0.1/"}, "wrong-notices.webhook"),
)


def test_mistakes_are_told_at_their_field(admin: Person, engine: sa.Engine):
    """In the words of the door; what was typed is still there, and nothing changes."""
    before = read(engine)
    for part, fields, told in MISTAKES:
        answer = save(admin, f"/apps/shop/parts/{part}", fields)

        assert 422 == answer.status_code, fields
        assert told in answer.text.replace("&#39;", "'"), fields
        assert all(value in answer.text for value in fields.values()), fields
    assert read(engine) == before


def test_settings_are_changed(admin: Person, engine: sa.Engine):
    """All of them by one form, which begins with what is stored."""
    before = read(engine)
    fields = {"name": "Toy shop", "timezone": "Europe/Paris", "notices.mail": "a@b.ch"}

    assert 303 == save(admin, "/apps/shop/parts/settings", fields).status_code

    changed = {"name": "Toy shop", "notices": {"mail": ["a@b.ch"]}}
    assert {**before, **changed} == read(engine)
    assert 'value="Toy shop"' in admin.look("/apps/shop/parts/settings")


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("settings", {"notices.mail": "", "notices.webhook": "https://example.com/x"}),
        ("users", {"id": "bob2", "groups": ""}),
        ("holidays", {"name": "uk", "days": ""}),
    ],
)
def test_form_that_nobody_changed_changes_nothing(
    admin: Person, engine: sa.Engine, part: str, fields: dict[str, str]
):
    """Also of what has a list with nothing in it, which is shown so."""
    place = f"/apps/shop/parts/{part}"
    name = "" if part == "settings" else f"?name={next(iter(fields.values()))}"
    assert 303 == save(admin, place, fields).status_code
    before = read(engine)

    assert 303 == save(admin, f"{place}{name}", {}).status_code
    assert before == read(engine)


def test_somebody_elses_change_is_not_overwritten(admin: Person, engine: sa.Engine):
    """It is told, and whoever sends the form once more has been warned."""
    place, sent = "/apps/shop/parts/templates", {"seen": "1", **LETTER}
    save(admin, "/apps/shop/parts/holidays", DAYS)
    stale = admin.client.post(place, data=sent)

    assert 412 == stale.status_code
    assert "Read it again" in stale.text
    assert "letter" not in read(engine)["templates"]


def test_app_is_made_exported_and_deleted(admin: Person, engine: sa.Engine):
    """With the questions of the command line."""
    fields = {"uid": "toys", "name": "Toys", "timezone": "Europe/Paris"}

    assert "Make a small app" in admin.look("/apps")
    assert 303 == save(admin, "/apps/_new", fields).status_code
    assert "exists, with revision 1" in save(admin, "/apps/_new", fields).text
    assert read(engine, "toys") == admin.client.get("/apps/toys/document").json()
    assert "Delete small app 'toys'?" in admin.look("/apps/toys/delete")
    assert "Deleted small app toys" in admin.do("/apps/toys/delete")
    gone = admin.look("/apps/toys", 404)
    assert "There is no small app 'toys'" in gone
    assert "minutehand apps list" not in gone  # a page leads to the list itself


def test_action_is_deleted(admin: Person):
    """After the question of the command line."""
    uid = admin.shop.ids["uid"]

    assert "can never be used again" in admin.look(f"/actions/{uid}/delete")
    assert "This action was deleted" in admin.do(f"/actions/{uid}/delete", note="old")
    record = admin.look(f"/settings/changes?kind=action&subject={uid}")
    assert re.search(rf'>action \w+ {admin.shop.mark}</a>\s*<small class="id">', record)
    admin.look(f"/actions/{uid}/delete", 404)


@pytest.mark.parametrize(
    ("role", "app"), [(Role.OPERATOR, "shop"), (Role.ADMIN, "books")]
)
def test_others_change_nothing(
    browser: TestClient, engine: sa.Engine, shop: Prepared, role: Role, app: str
):
    """Neither who may only run things, nor the admin of another app."""
    person, before = Person(enter_as(browser, engine, role, app), shop), read(engine)
    status = 403 if app == "shop" else 404

    for path in ("parts/settings", "parts/users?name=ada", "document", "delete"):
        person.look(f"/apps/shop/{path}", status)
    for path, fields in (
        ("parts/templates", LETTER),
        ("parts/users/delete?name=ada", {}),
        ("delete", {}),
    ):
        answer = browser.post(f"/apps/shop/{path}", data=fields)
        assert status == answer.status_code
    person.look("/apps/_new", 403)
    assert read(engine) == before
