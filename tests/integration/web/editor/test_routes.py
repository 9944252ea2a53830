"""The editor over HTTP: what was typed comes back, and is saved as the API would."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from actions.lookup import SYSTEM_APP
from actions.posting.post import delete_action
from actions.read_actions import fetch_document
from actions.small_apps.apply import ApplyTerms, apply_small_app
from models.database.tables import operations, scheduled_actions
from models.door.app_documents import read_small_app
from models.role import Role
from tests.database import fetch_rows, read_by, write_by
from tests.integration.web.conftest import enter_as
from tests.scheduling import (
    REFRESH,
    add_app,
    fetch_action,
    find_far_hour,
    make_document,
    post,
)
from web.editor.starters import STARTERS

ORIGINALS = sorted((Path(__file__).parents[3] / "examples").glob("*.json"))


@pytest.fixture
def ada(browser: TestClient, engine: sa.Engine) -> TestClient:
    """Give the browser of an editor of all apps, of which there are two."""
    add_app(engine, "shop", ids=["ann"])
    add_app(engine, "books")
    return enter_as(browser, engine, Role.EDITOR)


def send(
    browser: TestClient, path: str, *, is_part: bool = False, **fields: Any
) -> httpx2.Response:
    return browser.post(path, data=fields, headers={"X-Part": "1"} if is_part else {})


def get_text(answer: httpx2.Response) -> str:
    """Return what the page has in its text field, as a browser reads it."""
    pattern = r'<textarea id="document"[^>]*>(.*?)</textarea>'
    found = re.search(pattern, answer.text, re.DOTALL)
    assert found is not None
    return html.unescape(found[1]).removeprefix("\n")


def get_fields(answer: httpx2.Response) -> dict[str, Any]:
    """Return the fields of the form, as a browser would send them."""
    fields: dict[str, Any] = {"document": get_text(answer).replace("\n", "\r\n")}
    for tag in re.findall(r"<input\s[^>]*>", answer.text):
        at = {k: html.unescape(v) for k, v in re.findall(r'(\w+)="([^"]*)"', tag)}
        name = at.get("name", "")
        if at.get("type") in {"checkbox", "radio"}:
            if " checked" in tag:
                fields.setdefault(name, []).append(at.get("value", "on"))
        elif name and name not in {"q", "current"}:
            value = at.get("value", "")
            fields[name] = value
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
    query = sa.select(sa.func.count()).select_from(scheduled_actions)
    return fetch_rows(engine, query).scalar_one()


def get_uid(answer: httpx2.Response) -> str:
    assert answer.status_code == 303, answer.text
    uid: str = answer.headers["location"].removeprefix("/actions/")
    return uid


@pytest.mark.parametrize("path", ORIGINALS, ids=lambda path: path.stem)
def test_original_actions_open_and_save_verbatim(
    ada: TestClient, engine: sa.Engine, path: Path
):
    """The very text, checked, comes back character for character; then it is saved."""
    text = path.read_text()

    checked = send(ada, "/actions/new", app="shop", document=text, do="check")
    saved = send(ada, "/actions/new", app="shop", document=text, do="save")

    assert text == get_text(checked)
    assert "Mondays at 07:00" in checked.text or "after a user was" in checked.text
    row = fetch_action(engine, get_uid(saved))
    assert (json.loads(text)["name"], "shop") == (row.name, row.app)


def test_first_action_of_an_empty_installation(browser: TestClient, engine: sa.Engine):
    """
    Two clicks: a starter, then save; the first small app is made with it, beside the
    scheduler's own, and is not asked for then.
    """
    add_app(engine, SYSTEM_APP)
    enter_as(browser, engine, Role.EDITOR)

    begin = browser.get("/actions/new")
    link = re.search(r'href="(/actions/new\?starter=weekdays)"', begin.text)
    assert link is not None
    opened = browser.get(link[1])
    saved = send(browser, "/actions/new", **get_fields(opened), do="save")

    assert "Every weekday" in get_sentence(opened) or "Monday" in get_sentence(opened)
    assert "main" == fetch_action(engine, get_uid(saved)).app
    assert "main" == get_fields(browser.get("/actions/new"))["app"]


def test_each_starter_opens_without_a_problem(ada: TestClient):
    """In an app that has nothing of it; what it lacks is a warning."""
    pages = {
        kind: ada.get(f"/actions/new?app=shop&starter={kind}") for kind in STARTERS
    }

    assert [] == [kind for kind, page in pages.items() if "No problem" not in page.text]
    assert [] == [kind for kind, page in pages.items() if not get_sentence(page)]


def test_unknown_starter_or_action_leaves_an_empty_page(ada: TestClient):
    """Which says what there is."""
    starter = ada.get("/actions/new?app=shop&starter=weekday")
    copied = ada.get("/actions/new?app=shop&from=never")

    assert "Did you mean" in starter.text
    assert "there is no scheduled action" in html.unescape(copied.text).lower()
    assert ("", 200) == (get_text(starter), copied.status_code)


def test_problems_are_at_their_lines(ada: TestClient, engine: sa.Engine):
    """With what was probably meant; the rule alone is previewed meanwhile."""
    text = json.dumps(make_document(overlap="skp", nmae="x"), indent=1)

    answer = send(ada, "/actions/new", app="shop", document=text, do="save")

    line = text[: text.index('"nmae"')].count("\n") + 1
    assert 422 == answer.status_code
    assert "2 problems. Nothing is saved" in answer.text
    assert f'data-goto="document {line} 2"' in answer.text
    assert "Every day at 07:00" in get_sentence(answer)
    assert text == get_text(answer)
    assert 0 == count(engine)


def test_preview_tells_how_far_each_run_is(ada: TestClient):
    """Below the head "In", so without that word, and with the unit as a whole."""
    when = {"cron_rule": "*/7 * * * *", "timezone": "UTC"}
    text = json.dumps(make_document(when=when))

    answer = send(ada, "/actions/new", app="shop", document=text, do="check")

    (preview,) = re.findall(r'id="next-runs".*?</table>', answer.text, re.DOTALL)
    told = re.findall(r'<td class="t-rel nowrap">([^<]*)<', preview)
    assert 10 == len(told)
    whole = r"[\d.]+ (h|min|s)( \d+ (min|s))?"
    assert [] == [each for each in told if not re.fullmatch(whole, each)]


def test_text_that_is_no_action_comes_back(ada: TestClient):
    """Whatever it is; nothing can be put into it."""
    texts = ("{", "[]", "7", '{"a": 1, "a": 2}', '{"name": "\ud7ff', "{}" * 3000)
    for text in texts:
        answer = send(ada, "/actions/new", app="shop", document=text, do="check")
        put = send(ada, "/actions/new", app="shop", document=text, do="put-who")

        assert (200, text) == (answer.status_code, get_text(answer))
        assert "Nothing is saved until" in answer.text
        assert (422, text) == (put.status_code, get_text(put))


def test_proposal_is_taken(ada: TestClient):
    """The key that was probably meant is written, and nothing else changes."""
    text = json.dumps(make_document()).replace("cron_rule", "cron_rul")
    checked = send(ada, "/actions/new", app="shop", document=text, do="check")
    button = re.search(r'name="fix" value="([^"]+)">Write “(\w+)”', checked.text)
    assert button is not None

    fixed = send(ada, "/actions/new", app="shop", document=text, fix=button[1])
    nonsense = send(ada, "/actions/new", app="shop", document=text, fix="/no")

    assert text.replace("cron_rul", "cron_rule") == get_text(fixed)
    assert text == get_text(nonsense)


def test_app_is_asked_for_first(ada: TestClient, engine: sa.Engine):
    """None is the default, and the scheduler's own is none of them."""
    add_app(engine, SYSTEM_APP)
    asked = ada.get("/actions/new?starter=weekdays")
    unknown = ada.get("/actions/new?app=shp")
    chosen = ada.get("/actions/new?app=shop&starter=weekdays")

    for page in (asked, unknown):
        assert "Which small app" in page.text
        assert 'value="shop"' in page.text
        assert f'value="{SYSTEM_APP}"' not in page.text
    assert 'name="starter" value="weekdays"' in asked.text
    assert "shp" in unknown.text
    assert "shop" == get_fields(chosen)["app"]


def test_starters_count_the_holidays_of_the_app(ada: TestClient, engine: sa.Engine):
    """So do the builders."""
    holidays = {"holidays": {"fr": ["2026-12-25"]}}
    app = read_small_app(json.dumps(holidays).encode(), uid="shop")
    write_by(engine, apply_small_app, app, ApplyTerms(by="ada"))

    opened = ada.get("/actions/new?app=shop&starter=month-end")
    empty = ada.get("/actions/new?app=shop")

    document = json.loads(get_text(opened))
    assert [{"calendar": "fr"}] == document["except"]
    assert -1 == document["when"]["working_day"]
    assert "fr" == get_fields(opened)["when_holidays"]
    assert "fr" == get_fields(empty)["when_holidays"]
    assert "The document says the same" in opened.text


def test_builder_writes_when_it_is_asked_to(ada: TestClient, engine: sa.Engine):
    """Sentence and runs are shown before; nothing else of the document changes."""
    opened = ada.get("/actions/new?app=shop&starter=nightly")
    fields = {**get_fields(opened), "when_time": "4:15 pm"}

    shown = send(ada, "/actions/new", **fields, do="check")
    put = send(ada, "/actions/new", **fields, do="put-when")
    saved = send(ada, "/actions/new", **get_fields(put), do="save")

    before = get_text(opened)
    assert (before, "4:15 pm") == (get_text(shown), get_fields(shown)["when_time"])
    assert "Every day at 16:15" in shown.text
    assert "Not in the document yet" in shown.text
    assert before.replace("30 2 * * *", "15 16 * * *").strip() == get_text(put)
    assert "16:15" == get_fields(put)["when_time"]
    document = fetch_action(engine, get_uid(saved)).document
    assert "15 16 * * *" == document["when"]["cron_rule"]


def test_buttons_have_names_of_their_own(ada: TestClient):
    """So that whoever hears them, not sees them, knows what each puts where."""
    page = ada.get("/actions/new?app=shop").text

    names = [
        re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", "", text))).strip()
        for text in re.findall(r"<button[^>]*>(.*?)</button>", page, re.DOTALL)
    ]
    found = [name for name in names if name.startswith(("Put it", "Read it"))]
    assert 6 == len(found) == len({*found}), found


def test_what_a_builder_cannot_read_is_refused(ada: TestClient):
    """In words, with everything as it was typed."""
    opened = ada.get("/actions/new?app=shop&starter=nightly")
    fields = {
        **get_fields(opened),
        "when_time": "half past",
        "when_zone": "Europe/Pars",
    }

    put = send(ada, "/actions/new", **fields, do="put-when")
    zone = send(ada, "/actions/new", **fields | {"when_time": "9:00"}, do="check")

    assert (422, get_text(opened)) == (put.status_code, get_text(put))
    assert "is not a time of day" in html.unescape(put.text)
    assert "half past" == get_fields(put)["when_time"]
    assert "Europe/Paris" in zone.text.partition('id="when-says"')[2]


def test_nothing_that_was_filled_in_is_left_out(ada: TestClient, engine: sa.Engine):
    """It is put into the document, or read from there, before anything is saved."""
    opened = ada.get("/actions/new?app=shop&starter=nightly")
    fields = {**get_fields(opened), "when_time": "04:15"}
    text = fields["document"].replace("30 2", "30 3")

    left = send(ada, "/actions/new", **fields, do="save")
    read = send(ada, "/actions/new", **fields | {"document": text}, do="read-when")
    written = send(
        ada, "/actions/new", **get_fields(opened) | {"document": text}, do="save"
    )

    assert (422, "04:15") == (left.status_code, get_fields(left)["when_time"])
    assert "under “When” is not in the document" in left.text
    assert ("03:30", 303) == (get_fields(read)["when_time"], written.status_code)
    assert 1 == count(engine)


def test_part_has_no_field(ada: TestClient):
    """What is put into the page while somebody types takes nothing away from them."""
    opened = ada.get("/actions/new?app=shop&starter=nightly")
    fields = {**get_fields(opened), "when_time": "04:15"}

    part = send(ada, "/actions/new", is_part=True, **fields).text

    form = part.partition('id="edit"')[2].partition("</form>")[0]
    named = re.findall(r'<(?:input|select|textarea)[^>]* name="(\w+)"', form)
    assert ["app"] == named
    assert "04:15" in form.partition('id="when-says"')[2]
    assert "02:30" in form.partition('id="preview"')[2]


def test_edit_shows_what_it_changes(ada: TestClient, engine: sa.Engine):
    """In 30 days; then it is saved as the next revision."""
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


def test_stale_edit_keeps_both_texts(ada: TestClient, engine: sa.Engine):
    """What was typed, and where others' change is told; then either can be taken."""
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
    assert "Revision 2 came meanwhile" in stale.text
    compared = ada.get(f"/actions/{uid}/revisions?old=1&new=2").text
    assert f"/actions/{uid}/revisions?old=1&amp;new=2" in stale.text
    assert "/overlap" in compared
    assert "0 7 * * *" == kept["when"]["cron_rule"]
    assert f"/actions/{uid}" == mine.headers["location"]
    assert "0 8 * * *" == fetch_action(engine, uid).document["when"]["cron_rule"]


def test_save_and_run_once(ada: TestClient, engine: sa.Engine):
    """Leads to the run."""
    fields = get_fields(ada.get("/actions/new?app=shop&starter=weekdays"))

    saved = send(ada, "/actions/new", **fields, do="run")

    found = fetch_rows(engine, sa.select(operations.c.id)).scalar_one()
    assert f"/operations/{found}" == saved.headers["location"]


def test_name_that_is_taken_is_told_before_and_when_saving(
    ada: TestClient, engine: sa.Engine
):
    """At its line; nothing that was typed is lost."""
    uid = post(engine, "shop").uid
    copied = ada.get(f"/actions/new?from={uid}")
    text = get_text(copied).replace("copy of ", "")

    checked = send(ada, "/actions/new", app="shop", document=text, do="check")
    saved = send(ada, "/actions/new", app="shop", document=text, do="save")

    assert "No problem" in copied.text
    assert "already has an action named" in checked.text
    assert (409, text) == (saved.status_code, get_text(saved))


def test_text_of_a_deleted_action_is_not_lost(ada: TestClient, engine: sa.Engine):
    """Somebody deleted it meanwhile: it can still be copied, and saved as a new one."""
    uid = post(engine, "shop").uid
    fields = get_fields(ada.get(f"/actions/{uid}/edit"))
    write_by(engine, delete_action, uid)

    saved = send(ada, f"/actions/{uid}/edit", **fields, do="save")

    assert 404 == saved.status_code
    assert get_text(saved) == fields["document"].replace("\r\n", "\n")
    assert 404 == ada.get(f"/actions/{uid}/edit").status_code
    assert get_text(ada.get(f"/actions/new?from={uid}"))


def test_revisions_are_compared_and_restored(ada: TestClient, engine: sa.Engine):
    """Any two; a restored one is a new revision, and asks first."""
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
    first, third = (read_by(engine, fetch_document, uid, each) for each in (1, 3))
    assert first == third
    again = send(ada, f"{place}/1/restore", current=current[1])
    assert (412, True) == (again.status_code, "was changed meanwhile" in again.text)
    assert "has no revision 9" in html.unescape(ada.get(f"{place}?old=9").text)
    assert 404 == ada.get(f"{place}/99999999999/restore").status_code
    assert 200 == ada.get(f"{place}?old=x&new=&before=-1").status_code


def test_earlier_revision_can_be_edited(ada: TestClient, engine: sa.Engine):
    """Its text, to be saved in the place of the latest."""
    uid = post(engine, "shop").uid
    post(engine, "shop", replace_it=True, overlap="queue")

    opened = ada.get(f"/actions/{uid}/edit?revision=1")

    assert '"overlap"' not in get_text(opened)
    assert "Edit, from revision 2" in opened.text


def test_tenant_sees_its_own_app_alone(browser: TestClient, engine: sa.Engine):
    """Another's action is not there, whatever is asked for."""
    add_app(engine, "shop")
    add_app(engine, "books")
    uid = post(engine, "books", name="secret").uid
    enter_as(browser, engine, Role.EDITOR, "shop")

    for path in (f"/actions/{uid}/edit", f"/actions/{uid}/revisions"):
        answer = browser.get(path)
        assert (404, False) == (answer.status_code, "secret" in answer.text)
    assert "secret" not in browser.get(f"/actions/new?from={uid}").text
    assert 404 == send(browser, f"/actions/{uid}/edit", document="{}").status_code
    opened = browser.get("/actions/new?starter=weekdays&app=books")
    assert 'name="app"' not in opened.text
    saved = send(browser, "/actions/new", **get_fields(opened), do="save")
    assert "shop" == fetch_action(engine, get_uid(saved)).app
    fields = {**get_fields(opened), "app": "books"}
    assert 404 == send(browser, "/actions/new", **fields, do="save").status_code


def test_what_is_typed_is_text_and_nothing_else(ada: TestClient):
    """No tag of it reaches the page."""
    text = json.dumps(make_document(name="</textarea><script>alert(1)</script>"))

    answer = send(ada, "/actions/new", app="shop", document=text, do="check")

    assert "<script>alert" not in answer.text
    assert text == get_text(answer)
