"""The pages of keys, the record of changes, doctor and the installation."""

from __future__ import annotations

import re

import sqlalchemy as sa
from starlette.testclient import TestClient

from models.database.engine import writing
from models.database.tables import changes
from models.paging import Page
from models.role import Role
from serving.access.key_documents import DEFAULT_LIFETIME
from serving.access.keys import recognize
from serving.access.manage_keys import create_key, fetch_keys
from tests.database import execute, read_by, write_by
from tests.integration.web.conftest import Browser, enter, enter_as, read
from tests.scheduling import add_app


def test_key_is_made_and_shown_once(ada: TestClient, engine: sa.Engine):
    """It works, and the list has no more than how it begins."""
    add_app(engine, "shop")
    asked = read(ada, "/settings/keys/new")
    data = {"name": "wall", "role": "viewer", "app": "shop", "expires": "P30D"}
    made = ada.post("/settings/keys/new", data=data)
    (text,) = re.findall(r"mh_\w{12}_\w+", made.text)
    found = write_by(engine, recognize, text)
    page = read(ada, "/settings")

    options = re.findall(r'<option value="([^"]*)"( selected)?', asked)
    assert {("", " selected"), ("shop", ""), ("*", "")} <= set(options)
    assert (str(DEFAULT_LIFETIME), " selected") in options
    assert (200, "no-store") == (made.status_code, made.headers["cache-control"])
    assert ("shop", Role.VIEWER) == (found.app, found.role)  # type: ignore[union-attr]  # it was not refused
    assert text not in page
    assert "wall" in page
    assert "2 keys are active" in page


def test_colleague_is_invited(ada: TestClient, browse: Browser, engine: sa.Engine):
    """To one app, once, and until the end that was chosen; both names are on record."""
    add_app(engine, "shop")
    asked = read(ada, "/settings/invite")
    data = {"name": "zoe", "role": "admin", "app": "shop", "expires": "P30D"}
    made = ada.post("/settings/invite", data=data)
    (secret,) = re.findall(r"http://testserver/sign-in#(mhl_\w+)", made.text)
    colleague = browse()
    statuses = [enter(each, secret).status_code for each in (colleague, browse())]
    key = {"role": "viewer", "app": "shop"}
    changed = colleague.post("/api/v1/keys", json=key)
    noted = read(ada, "/settings/changes")

    assert 'value="P7D" selected' in asked
    assert 'value="*"' not in asked
    assert (200, "no-store") == (made.status_code, made.headers["cache-control"])
    assert [303, 403] == statuses
    assert 201 == changed.status_code
    assert "admin of small app shop" in read(colleague, "/sign-in")
    assert 404 == colleague.get("/api/v1/apps/books").status_code
    assert "zoe (invited by ada)" in noted
    assert secret not in noted


def test_invitation_is_revoked(ada: TestClient, browse: Browser, engine: sa.Engine):
    """Who came in by it is out; an admin of another app does not know of it."""
    for app in ("shop", "books"):
        add_app(engine, app)
    data = {"name": "zoe", "role": "viewer", "app": "shop", "expires": "P1D"}
    made = ada.post("/settings/invite", data=data)
    (secret,) = re.findall(r"#(mhl_\w+)", made.text)
    colleague, other = browse(), browse()
    before = read(ada, "/settings")
    enter(colleague, secret)
    (path,) = re.findall(
        r'"(/settings/invitations/\w+/revoke)"', read(ada, "/settings")
    )
    enter_as(other, engine, app="books")
    unknown = [other.get(path), other.post(path)]
    was_in = colleague.get("/").status_code
    asked = read(ada, path)
    ada.post(path)

    assert "not yet" in before
    assert "zoe (invited by ada)" not in read(other, "/settings")
    assert [404, 404] == [answer.status_code for answer in unknown]
    assert "They came in" in asked
    assert [200, 303] == [was_in, colleague.get("/").status_code]
    page = read(ada, "/settings")
    assert "Revoked the invitation of zoe (invited by ada)." in page
    assert "/settings/invitations/" not in page
    assert "revoked <a" in read(ada, "/settings/changes?kind=invitation")


def test_wrong_invitation_is_told(ada: TestClient, engine: sa.Engine):
    """With what was typed, and nobody is invited."""
    add_app(engine, "shop")
    given = {"name": "kept", "role": "viewer", "app": "shop", "expires": "P1D"}
    wrong = (
        ({"name": ""}, "name"),
        ({"app": ""}, "app"),
        ({"app": "nowhere"}, "nowhere"),
        ({"expires": "P31D"}, "within 30 days"),
        ({"expires": "PT0S"}, "no time at all"),
    )
    for change, told in wrong:
        data = {**given, **change}
        answer = ada.post("/settings/invite", data=data)

        assert answer.status_code in {400, 404, 422}, change
        assert told in answer.text, change
        assert "mhl_" not in answer.text, change


def test_admin_of_an_app_invites_to_it_alone(browser: TestClient, engine: sa.Engine):
    """It need not be said; another is unknown. Whoever is no admin invites nobody."""
    add_app(engine, "shop")
    add_app(engine, "books")
    data = {"name": "zoe", "role": "viewer", "expires": "P1D"}
    answers = []
    for role, app in (("admin", {}), ("admin", {"app": "books"}), ("editor", {})):
        enter_as(browser, engine, Role(role), "shop")
        answers.append(browser.post("/settings/invite", data={**data, **app}))

    assert [200, 404, 403] == [answer.status_code for answer in answers]
    assert "viewer of shop" in answers[0].text


def test_wrong_key_is_told(ada: TestClient, engine: sa.Engine):
    """With what was typed, and nothing is made."""
    wrong: list[tuple[dict[str, str], str]] = [
        ({"role": "chief", "app": "*"}, "chief"),
        ({"role": "viewer", "app": "nowhere"}, "nowhere"),
        ({"role": "viewer", "app": ""}, "No app is chosen"),
        ({"role": "viewer", "app": "*", "expires": "soon"}, "soon"),
    ]
    for given, told in wrong:
        data = {"name": "kept", **given}
        answer = ada.post("/settings/keys/new", data=data)

        assert answer.status_code in {404, 422}, given
        assert told in answer.text, given
        assert 'value="kept"' in answer.text, given
    assert 1 == len(read_by(engine, fetch_keys, app=None, page=Page(9)).entries)


def test_key_is_rotated_and_revoked(ada: TestClient, engine: sa.Engine):
    """The successor is shown once; a revoked key is said to be."""
    old = write_by(engine, create_key, app=None, role=Role.VIEWER, name="wall")
    path = f"/settings/keys/{old.id}"
    question = read(ada, f"{path}/rotate")
    rotated = ada.post(f"{path}/rotate", data={"overlap": "P1D"})
    read(ada, f"{path}/revoke")
    ada.post(f"{path}/revoke")
    page = read(ada, "/settings")

    assert "Rotate wall" in question
    assert re.search(r"mh_\w{12}_\w+", rotated.text)
    assert f"Revoked {old.prefix}… (wall)." in page
    assert "revoked" in page


def test_record_of_changes_is_shown_and_verified(ada: TestClient, engine: sa.Engine):
    """Who did what; a chain that was tampered with says where."""
    page = read(ada, "/settings/changes")
    nothing = read(ada, "/settings/changes?kind=queue&day=nonsense")
    whole = read(ada, "/settings/changes/verify")
    execute(engine, sa.update(changes).values(subject="another"))
    broken = read(ada, "/settings/changes/verify")

    assert "created" in page
    assert "Nothing matches" in nothing
    assert "nonsense" in nothing
    assert "The record is whole: 1 change" in whole
    assert "The record was altered at change 1" in broken


def test_doctor_and_installation_are_shown(ada: TestClient):
    """The worst first; settings without secrets, and where they are from."""
    doctor = read(ada, "/settings/doctor")
    installation = read(ada, "/settings/installation")
    bundle = ada.get("/settings/support-bundle")

    assert "need a look" in doctor
    assert "minutehand scheduler" in doctor
    assert "MINUTEHAND_BROKER_URL" in installation
    assert "30 d" in installation
    assert "for good" in installation
    assert 200 == bundle.status_code
    assert "minutehand-support.json" in bundle.headers["content-disposition"]


def test_viewers_see_who_they_are(browser: TestClient, engine: sa.Engine):
    """And doctor, as over HTTP; neither keys nor changes."""
    enter_as(browser, engine, Role.VIEWER)
    page = read(browser, "/settings")

    assert "You are ada, viewer of all small apps" in page
    assert "/settings/keys/new" not in page
    assert 200 == browser.get("/settings/doctor").status_code


def test_admins_of_an_app_manage_its_keys_alone(browse: Browser, engine: sa.Engine):
    """They see no key of others, and nothing of the installation."""
    for app in ("shop", "books"):
        add_app(engine, app)
    with writing(engine) as connection:
        mine = create_key(connection, app="shop", role=Role.ADMIN, name="mine")
        other = create_key(connection, app="books", role=Role.ADMIN, name="other")
    browser = browse()
    enter(browser, mine.text)
    page = read(browser, "/settings")
    data = {"role": "viewer", "app": "books"}
    foreign = browser.post("/settings/keys/new", data=data)
    browser.post("/settings/keys/new", data={"role": "viewer"})
    apps = {e.app for e in read_by(engine, fetch_keys, app=None, page=Page(9)).entries}

    assert "mine" in page
    assert "other" not in page
    assert "there is no small app" in foreign.text
    assert {"shop", "books"} == apps
    for path in ("doctor", "installation", "changes/verify"):
        assert 403 == browser.get(f"/settings/{path}").status_code
    assert 404 == browser.get(f"/settings/keys/{other.id}/revoke").status_code
    assert "other" not in read(browser, "/settings/changes")
