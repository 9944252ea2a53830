"""The editor over HTTP: what was typed comes back, and is saved as the API would."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from actions.posting.edit import fetch_document
from actions.posting.post import delete_action
from cli.web_app import make_app
from models.database.engine import reading, writing
from models.database.tables import operations, scheduled_actions, small_apps
from overview.access.manage_keys import create_key
from overview.access.roles import Role
from overview.starters.starters import STARTERS
from serving.services import Services
from tests.integration.api.conftest import UNLIMITED, make_settings
from tests.scheduling import (
    REFRESH,
    add_app,
    fetch_action,
    find_far_hour,
    make_document,
    post,
)

OWN = {"Origin": "http://testserver"}
ORIGINALS = sorted((Path(__file__).parents[2] / "examples").glob("*.json"))


@pytest.fixture
def pages(engine: sa.Engine, tmp_path: Path) -> Iterator[TestClient]:
    """Give a browser to which somebody signs in."""
    services = Services(make_settings(tmp_path, engine), engine, UNLIMITED)
    with TestClient(
        make_app(services), client=("10.1.1.1", 5), follow_redirects=False
    ) as client:
        yield client


def sign_in(
    pages: TestClient,
    engine: sa.Engine,
    role: Role = Role.EDITOR,
    app: str | None = None,
) -> None:
    with writing(engine) as connection:
        key = create_key(connection, app=app, role=role, name="ada")
    pages.post("/sign-in", data={"secret": key.text}, headers=OWN)


@pytest.fixture
def ada(pages: TestClient, engine: sa.Engine) -> TestClient:
    """Give the browser of an editor of all apps, of which there are two."""
    add_app(engine, "shop", ids=["ann"])
    add_app(engine, "books")
    sign_in(pages, engine)
    return pages


def send(
    pages: TestClient, path: str, part: str | None = None, **fields: Any
) -> httpx2.Response:
    headers = OWN if part is None else {**OWN, "X-Part": "1", "X-Field": part}
    return pages.post(path, data=fields, headers=headers)


def get_text(answer: httpx2.Response) -> str:
    """Return what the page has in its text field, as a browser reads it."""
    pattern = r'<textarea id="document"[^>]*>(.*?)</textarea>'
    found = re.search(pattern, answer.text, re.DOTALL)
    assert found is not None
    return html.unescape(found[1]).removeprefix("\n")


def get_fields(answer: httpx2.Response) -> dict[str, Any]:
    """Return the fields of the form, as a browser would send them."""
    fields: dict[str, Any] = {"document": get_text(answer).replace("\n", "\r\n")}
    for tag in re.findall(r"<input [^>]*>", answer.text):
        at = {k: html.unescape(v) for k, v in re.findall(r'(\w+)="([^"]*)"', tag)}
        name = at.get("name", "")
        if at.get("type") in {"checkbox", "radio"}:
            if " checked" in tag:
                fields.setdefault(name, []).append(at.get("value", "on"))
        elif name and name not in {"q", "current"}:
            value = at.get("value", "")
            several = name == "f_day"
            fields[name] = [*fields.get(name, []), value] if several else value
    for name, options in re.findall(
        r'<select[^>]* name="(\w+)"[^>]*>(.*?)</select>', answer.text, re.DOTALL
    ):
        chosen = re.search(r"<option(?: value=\"([^\"]*)\")? selected>([^<]*)", options)
        first = re.search(r"<option(?: value=\"([^\"]*)\")?>([^<]*)", options)
        found = chosen or first
        assert found is not None
        fields[name] = html.unescape(found[2] if found[1] is None else found[1])
    return fields


def get_sentence(answer: httpx2.Response) -> str:
    found = re.search(r'<p class="large"[^>]*>(.*?)</p>', answer.text)
    return "" if found is None else html.unescape(found[1])


def count(engine: sa.Engine) -> int:
    with reading(engine) as connection:
        query = sa.select(sa.func.count()).select_from(scheduled_actions)
        return connection.execute(query).scalar_one()


def get_uid(answer: httpx2.Response) -> str:
    assert answer.status_code == 303, answer.text
    uid: str = answer.headers["location"].removeprefix("/actions/")
    return uid


@pytest.mark.parametrize("path", ORIGINALS, ids=lambda path: path.stem)
def test_original_actions_open_and_save_verbatim(
    ada: TestClient, engine: sa.Engine, path: Path
):
    """
    The very text, checked, comes back character for character; then it is saved.
    """
    text = path.read_text()

    checked = send(ada, "/actions/new", app="shop", document=text, do="check")
    saved = send(ada, "/actions/new", app="shop", document=text, do="save")

    assert text == get_text(checked)
    assert "Mondays at 07:00" in checked.text or "after a user was" in checked.text
    row = fetch_action(engine, get_uid(saved))
    assert (json.loads(text)["name"], "shop") == (row.name, row.app)


def test_first_action_of_an_empty_installation(pages: TestClient, engine: sa.Engine):
    """
    Two clicks: a starter, then save; the first small app is made with it.
    """
    sign_in(pages, engine)

    begin = pages.get("/actions/new")
    link = re.search(r'href="(/actions/new\?starter=weekdays)"', begin.text)
    assert link is not None
    opened = pages.get(link[1])
    saved = send(pages, "/actions/new", **get_fields(opened), do="save")

    assert "Every weekday" in get_sentence(opened) or "Monday" in get_sentence(opened)
    assert "main" == fetch_action(engine, get_uid(saved)).app
    with reading(engine) as connection:
        assert ["main"] == list(connection.scalars(sa.select(small_apps.c.uid)))


@pytest.mark.parametrize("kind", STARTERS)
def test_each_starter_opens_without_a_problem(ada: TestClient, kind: str):
    """
    In an app that has nothing of it; what it lacks is a warning.
    """
    opened = ada.get(f"/actions/new?app=shop&starter={kind}")

    assert "No problem" in opened.text
    assert get_sentence(opened)


def test_unknown_starter_or_action_leaves_an_empty_page(ada: TestClient):
    """
    Which says what there is.
    """
    starter = ada.get("/actions/new?starter=weekday")
    copied = ada.get("/actions/new?from=never")

    assert "Did you mean" in starter.text
    assert "there is no scheduled action" in html.unescape(copied.text).lower()
    assert ("", 200) == (get_text(starter), copied.status_code)


def test_problems_are_at_their_lines(ada: TestClient, engine: sa.Engine):
    """
    All of them, with what was probably meant; the rule alone is previewed meanwhile.
    """
    text = json.dumps(make_document(overlap="skp", nmae="x"), indent=1)

    answer = send(ada, "/actions/new", app="shop", document=text, do="save")

    line = text[: text.index('"nmae"')].count("\n") + 1
    assert 422 == answer.status_code
    assert "2 problems. Nothing is saved" in answer.text
    assert f'data-goto="document {line} 2"' in answer.text
    assert "Every day at 07:00" in get_sentence(answer)
    assert text == get_text(answer)
    assert 0 == count(engine)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "7", '{"a": 1, "a": 2}', '{"name": "\ud7ff', "{}" * 3000],
)
def test_text_that_is_no_action_comes_back(ada: TestClient, text: str):
    """
    Whatever it is; the form waits.
    """
    answer = send(ada, "/actions/new", app="shop", document=text, do="check")

    assert 200 == answer.status_code
    assert "Nothing is saved until" in answer.text
    assert text == get_text(answer)


def test_proposal_is_taken(ada: TestClient):
    """
    The key that was probably meant is written, and nothing else changes.
    """
    text = json.dumps(make_document()).replace("cron_rule", "cron_rul")
    checked = send(ada, "/actions/new", app="shop", document=text, do="check")
    button = re.search(r'name="fix" value="(\d+)">Write “(\w+)”', checked.text)
    assert button is not None

    fixed = send(ada, "/actions/new", app="shop", document=text, fix=button[1])
    nonsense = send(ada, "/actions/new", app="shop", document=text, fix="99")

    assert text.replace("cron_rul", "cron_rule") == get_text(fixed)
    assert text == get_text(nonsense)


def test_form_is_written_as_json(ada: TestClient):
    """
    With the button; what the form does not show stays.
    """
    opened = ada.get("/actions/new?app=shop&starter=nightly")
    fields = {**get_fields(opened), "f_time": "04:15", "f_name": "other"}

    written = send(ada, "/actions/new", **fields, do="form")

    before, after = get_text(opened), get_text(written)
    assert after == before.replace("30 2 * * *", "15 4 * * *").replace(
        "nightly load", "other"
    )
    assert "04:15" in get_sentence(written)


def test_form_that_was_changed_is_saved_as_it_is(ada: TestClient, engine: sa.Engine):
    """
    Without a script, too: whoever changed the form alone need not write it first.
    """
    opened = ada.get("/actions/new?app=shop&starter=nightly")
    fields = {**get_fields(opened), "f_time": "04:15"}

    uid = get_uid(send(ada, "/actions/new", **fields, do="save"))

    assert "15 4 * * *" == fetch_action(engine, uid).document["when"]["cron_rule"]


def test_text_counts_if_both_were_changed(ada: TestClient):
    """
    And the page says what was left out.
    """
    opened = ada.get("/actions/new?app=shop&starter=nightly")
    fields = {**get_fields(opened), "f_time": "04:15"}
    fields["document"] = fields["document"].replace("30 2", "30 3")

    checked = send(ada, "/actions/new", **fields, do="check")

    assert "03:30" in get_sentence(checked)
    assert "left out" in checked.text


def test_script_says_which_of_the_two_was_typed_into(ada: TestClient):
    """
    The text is not sent back to whoever types it; the form is, and the other way round.
    """
    opened = ada.get("/actions/new?app=shop&starter=nightly")
    fields = {**get_fields(opened), "f_time": "04:15"}

    of_form = send(ada, "/actions/new", part="f_time", **fields)
    of_text = send(ada, "/actions/new", part="document", **fields)

    assert "15 4 * * *" in get_text(of_form)
    assert 'id="document"' not in of_text.text
    assert "02:30" in get_sentence(of_text)
    assert 'value="02:30"' in of_text.text


def test_edit_shows_what_it_changes(ada: TestClient, engine: sa.Engine):
    """
    In 30 days; then it is saved as the next revision.
    """
    hour = find_far_hour(engine)
    rule = {"cron_rule": f"0 {hour} * * *", "timezone": "UTC"}
    uid = post(engine, "shop", when=rule).uid
    opened = ada.get(f"/actions/{uid}/edit")
    fields = get_fields(opened)
    fields["document"] = fields["document"].replace(f"0 {hour}", f"0 {hour + 1}")

    checked = send(ada, f"/actions/{uid}/edit", **fields, do="check")
    saved = send(ada, f"/actions/{uid}/edit", **fields, do="save")

    assert "This edit changes no run" in opened.text
    assert "adds 0, removes 0 and moves 30" in checked.text
    assert f"/actions/{uid}" == saved.headers["location"]
    assert 2 == fetch_action(engine, uid).revision


def test_stale_edit_shows_both_texts(ada: TestClient, engine: sa.Engine):
    """
    Who changed what meanwhile, and what was typed; then either can be taken.
    """
    uid = post(engine, "shop").uid
    fields = get_fields(ada.get(f"/actions/{uid}/edit"))
    fields["document"] = fields["document"].replace("0 7", "0 8")
    post(engine, "shop", replace_it=True, overlap="queue")

    stale = send(ada, f"/actions/{uid}/edit", **fields, do="save")
    current = re.search(r'name="current" value="(\d+)"', stale.text)
    assert current is not None
    kept = fetch_action(engine, uid).document
    mine = send(
        ada, f"/actions/{uid}/edit", **fields, current=current[1], do="overwrite"
    )

    assert 412 == stale.status_code
    assert fields["document"].replace("\r\n", "\n") == get_text(stale)
    assert "/overlap" in stale.text
    assert "Revision 2 came meanwhile" in stale.text
    assert "0 7 * * *" == kept["when"]["cron_rule"]
    assert f"/actions/{uid}" == mine.headers["location"]
    assert "0 8 * * *" == fetch_action(engine, uid).document["when"]["cron_rule"]


def test_save_and_run_once(ada: TestClient, engine: sa.Engine):
    """
    Leads to the run.
    """
    fields = get_fields(ada.get("/actions/new?app=shop&starter=weekdays"))

    saved = send(ada, "/actions/new", **fields, do="run")

    with reading(engine) as connection:
        found = connection.execute(sa.select(operations.c.id)).scalar_one()
    assert f"/operations/{found}" == saved.headers["location"]


def test_name_that_is_taken_is_told_before_and_when_saving(
    ada: TestClient, engine: sa.Engine
):
    """
    At its line; nothing that was typed is lost.
    """
    uid = post(engine, "shop").uid
    copied = ada.get(f"/actions/new?from={uid}")
    text = get_text(copied).replace("copy of ", "")

    checked = send(ada, "/actions/new", app="shop", document=text, do="check")
    saved = send(ada, "/actions/new", app="shop", document=text, do="save")

    assert "No problem" in copied.text
    assert "already has an action named" in checked.text
    assert (409, text) == (saved.status_code, get_text(saved))


def test_text_of_a_deleted_action_is_not_lost(ada: TestClient, engine: sa.Engine):
    """
    Somebody deleted it meanwhile: it can still be copied, and saved as a new one.
    """
    uid = post(engine, "shop").uid
    fields = get_fields(ada.get(f"/actions/{uid}/edit"))
    with writing(engine) as connection:
        delete_action(connection, uid)

    saved = send(ada, f"/actions/{uid}/edit", **fields, do="save")

    assert 404 == saved.status_code
    assert get_text(saved) == fields["document"].replace("\r\n", "\n")
    assert 404 == ada.get(f"/actions/{uid}/edit").status_code
    assert get_text(ada.get(f"/actions/new?from={uid}"))


def test_revisions_are_compared_and_restored(ada: TestClient, engine: sa.Engine):
    """
    Any two; a restored one is a new revision, and asks first.
    """
    uid = post(engine, "shop", operations=REFRESH).uid
    post(engine, "shop", replace_it=True, operations=REFRESH, overlap="queue")
    place = f"/actions/{uid}/revisions"

    listed = ada.get(place)
    compared = ada.get(f"{place}?old=1&new=2")
    asked = ada.get(f"{place}/1/restore")
    current = re.search(r'name="current" value="(\d+)"', asked.text)
    assert current is not None
    restored = send(ada, f"{place}/1/restore", current=current[1], note="oops")

    assert f'href="{place}/1/restore"' in listed.text
    assert "<ins>&#34;queue&#34;</ins>" in compared.text
    assert "Restore revision 1 of daily?" in asked.text
    assert f"/actions/{uid}" == restored.headers["location"]
    with reading(engine) as connection:
        assert fetch_document(connection, uid, 1) == fetch_document(connection, uid, 3)
    again = send(ada, f"{place}/1/restore", current=current[1])
    assert (412, True) == (again.status_code, "was changed meanwhile" in again.text)
    assert "has no revision 9" in html.unescape(ada.get(f"{place}?old=9").text)
    assert 404 == ada.get(f"{place}/99999999999/restore").status_code
    assert 200 == ada.get(f"{place}?old=x&new=&before=-1").status_code


def test_earlier_revision_can_be_edited(ada: TestClient, engine: sa.Engine):
    """
    Its text, to be saved in the place of the latest.
    """
    uid = post(engine, "shop").uid
    post(engine, "shop", replace_it=True, overlap="queue")

    opened = ada.get(f"/actions/{uid}/edit?revision=1")

    assert '"overlap"' not in get_text(opened)
    assert "Edit, from revision 2" in opened.text


def test_tenant_sees_its_own_app_alone(pages: TestClient, engine: sa.Engine):
    """
    Another's action is not there, whatever is asked for; its own app is not asked for.
    """
    add_app(engine, "shop")
    add_app(engine, "books")
    uid = post(engine, "books", name="secret").uid
    sign_in(pages, engine, app="shop")

    for path in (f"/actions/{uid}/edit", f"/actions/{uid}/revisions"):
        answer = pages.get(path)
        assert (404, False) == (answer.status_code, "secret" in answer.text)
    assert "secret" not in pages.get(f"/actions/new?from={uid}").text
    assert 404 == send(pages, f"/actions/{uid}/edit", document="{}").status_code
    opened = pages.get("/actions/new?starter=weekdays&app=books")
    assert 'name="app"' not in opened.text
    saved = send(pages, "/actions/new", **get_fields(opened), do="save")
    assert "shop" == fetch_action(engine, get_uid(saved)).app
    fields = {**get_fields(opened), "app": "books"}
    assert 404 == send(pages, "/actions/new", **fields, do="save").status_code


def test_viewer_may_look_at_revisions_alone(pages: TestClient, engine: sa.Engine):
    """
    And has no button that they may not press.
    """
    add_app(engine, "shop")
    uid = post(engine, "shop").uid
    post(engine, "shop", replace_it=True, overlap="queue")
    sign_in(pages, engine, Role.VIEWER)

    listed = pages.get(f"/actions/{uid}/revisions?old=1")

    assert (200, False) == (listed.status_code, "restore" in listed.text)
    assert 403 == pages.get("/actions/new").status_code
    assert 403 == pages.get(f"/actions/{uid}/edit").status_code
    assert 403 == send(pages, f"/actions/{uid}/revisions/1/restore").status_code
    assert 403 == send(pages, "/actions/new", document="{}", do="save").status_code


def test_what_is_typed_is_text_and_nothing_else(ada: TestClient):
    """
    No tag of it reaches the page.
    """
    text = json.dumps(make_document(name="</textarea><script>alert(1)</script>"))

    answer = send(ada, "/actions/new", app="shop", document=text, do="check")

    assert "<script>alert" not in answer.text
    assert text == get_text(answer)
