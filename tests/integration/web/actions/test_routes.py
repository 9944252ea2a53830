"""The pages of scheduled actions without a browser: rules, roles, tenants, errors."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from actions.pausing.pause_and_resume import pause_action
from actions.posting.post import post_action
from actions.read_actions import fetch_revisions
from dispatch.bulk.runner import BulkRunner
from models.database.engine import Author, writing
from models.database.tables import operations
from models.door.documents import ReadContext, read_action_object
from models.requests.notes import PauseModel
from tests.database import fetch_rows, read_by, write_by
from tests.integration.web.conftest import Browser, enter_as, take_away
from tests.scheduling import (
    MINUTE,
    MONDAY,
    REFRESH,
    add_app,
    edit_action,
    get_now,
    make_document,
    post,
    put,
    tell_missed,
)

PARIS = {"cron_rule": "30 2 * * *", "timezone": "Europe/Paris"}


@pytest.fixture
def page(ada: TestClient, engine: sa.Engine) -> TestClient:
    """Give a browser of an admin, and two small apps with an action in one."""
    for app in ("shop", "books"):
        add_app(engine, app, ids=("ada",))
    post(engine, "shop", uid="nightly", name="Nightly <load>", when=PARIS)
    return ada


def read(answer: httpx2.Response, status: int = 200) -> str:
    """Return the text of a page, on one line."""
    assert answer.status_code == status, answer.text
    text = re.sub(r"<[^>]+>", "", answer.text[answer.text.index("<main") :])
    return html.unescape(" ".join(text.split()))


def send(page: TestClient, path: str, **fields: Any) -> httpx2.Response:
    """Send a form of the page itself."""
    return page.post(path, data=fields)


def test_the_list_says_what_each_action_does_and_did(
    page: TestClient, engine: sa.Engine
):
    """Sentence, rule, next, last result, strip, median; and why those that rest do."""
    post(engine, "shop", uid="held", name="Held")
    with writing(engine, author=Author("maria")) as connection:
        pause_action(connection, "held", PauseModel(note="Freeze."))
    for number, state in enumerate(("succeeded", "failed")):
        ran = {"started_at": MONDAY, "finished_at": MONDAY + MINUTE, "state": state}
        put(engine, number, action_uid="nightly", app="shop", **ran)

    found = page.get("/actions")
    shown = read(found)

    assert "1 failed last time." in shown
    assert "2 actions: 1 active, 1 paused." in shown
    assert "Every day at 02:30, Europe/Paris" in shown
    assert "30 2 * * *" in shown
    assert "Freeze. maria, since " in shown
    assert 'aria-label="1 succeeded, 1 failed; the latest failed"' in found.text
    assert "1 min" in shown
    assert "Nightly <load>" in shown
    assert "Nightly <load>" not in found.text


def test_times_of_the_list_are_by_the_clock_of_the_rule(
    page: TestClient, engine: sa.Engine
):
    """Also where the document names no zone, and the rule has that of its app."""
    document = make_document(uid="kolkata", when={"cron_rule": "0 7 * * *"})
    action = read_action_object(document, ReadContext("Asia/Kolkata"))
    write_by(engine, post_action, "shop", action)

    found = page.get("/actions?text=kolkata")

    assert 'title="Asia/Kolkata">' in found.text


def test_filters_are_in_the_address(page: TestClient, engine: sa.Engine):
    """What nobody knows is left out, and said; an unfit cursor begins anew."""
    post(engine, "books", uid="heavy", name="Heavy", operations=REFRESH)

    assert "Nightly" not in read(page.get("/actions?queue=heavy"))
    assert "Heavy" not in read(page.get("/actions?text=NIGHT"))
    assert "Heavy" not in read(page.get("/actions?app=shop"))
    assert "Nothing matches" in read(page.get("/actions?text=nowhere"))
    assert "Nothing matches" in read(page.get("/actions?app=unknown"))
    odd = read(page.get("/actions?state=asleep&cursor=x&nobody=knows"))
    assert "There is no state 'asleep', only " in odd
    assert "this is its beginning" in odd
    assert "Heavy" in odd


def test_an_installation_without_actions_begins_with_one(ada: TestClient):
    """One of each kind, which opens in the editor."""
    found = ada.get("/actions")

    assert "No action yet" in read(found)
    assert 'href="/actions/new?starter=nightly"' in found.text


def test_a_selection_is_exported_as_it_can_be_posted(
    page: TestClient, engine: sa.Engine
):
    """Those that match, or those that are checked."""
    post(engine, "shop", uid="other", name="Other")

    names = [each["name"] for each in page.get("/actions.json").json()]
    chosen = page.get("/actions.json?uid=other&text=nowhere-to-be-used").json()

    assert ["Nightly <load>", "Other"] == names
    assert [] == chosen
    assert ["Other"] == [
        each["name"] for each in page.get("/actions.json?uid=other").json()
    ]


@pytest.fixture
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bulk changes wait: how far they are must not depend on who is faster."""
    monkeypatch.setattr(BulkRunner, "run", lambda *_: None)


@pytest.mark.usefixtures("_idle")
def test_many_are_paused_after_their_count_and_names(
    page: TestClient, engine: sa.Engine
):
    """If it is another count by then, nothing is changed, and the new one is shown."""
    question = read(page.get("/bulk/new?change=pause&all=1&app=shop"))
    post(engine, "shop", uid="other", name="Other")
    given = {"change": "pause", "filter": '{"app": "shop"}', "note": "freeze"}
    stale = send(page, "/bulk/new", expected_count="1", **given)
    begun = send(page, "/bulk/new", expected_count="2", **given)

    assert "Pause 1 action?" in question
    assert "Nightly <load> (shop)" in question
    again = read(stale, 409)
    assert "Pause 2 actions?" in again
    assert 'value="freeze"' in stale.text
    assert 303 == begun.status_code
    progress = read(page.get(begun.headers["location"]))
    assert "of 2" in progress
    asked = read(page.get(f"{begun.headers['location']}/cancel"))
    assert "Stop before the last 2?" in asked
    assert 303 == send(page, f"{begun.headers['location']}/cancel").status_code


def test_what_is_typed_beside_many_is_asked_for_again(page: TestClient):
    """What was chosen, and whatever else was typed, is still there."""
    given = {"change": "pause", "filter": '{"app": "shop"}', "expected_count": "1"}
    for until, status in (("soon", 422), ("2020-01-01T00:00", 400)):
        again = send(page, "/bulk/new", note="freeze", until=until, **given)

        assert "Pause 1 action?" in read(again, status)
        assert f'value="{until}"' in again.text
        assert 'value="freeze"' in again.text


def test_a_database_that_is_away_is_no_wrong_choice(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
):
    """It is told as by every page, and may be asked again."""
    take_away(monkeypatch, "web.bulk.count_bulk")

    assert 503 == page.get("/bulk/new?change=run&all=1").status_code


def test_a_change_that_makes_no_sense_is_refused(page: TestClient):
    """With the words of the API; nothing is changed."""
    for query, told in (
        ("change=pause", "Nothing is chosen."),
        ("change=explode&all=1", "explode"),
        ("all=1", "'' is not a known value"),
        ("change=pause&all=1&state=asleep", "asleep"),
    ):
        shown = read(page.get(f"/bulk/new?{query}"), 422)

        assert "Nothing was changed" in shown, query
        assert told in shown, query


def test_an_action_is_paused_and_resumed(page: TestClient, engine: sa.Engine):
    """An end is in the zone of the action; the pause can be undone."""
    wrong = send(page, "/actions/nightly/pause", note="freeze", until="tomorrow")
    past = send(page, "/actions/nightly/pause", until="2020-01-01T00:00")
    done = send(page, "/actions/nightly/pause", note="freeze", until="2035-07-01T09:00")
    shown = page.get("/actions/nightly")
    resumed = send(page, "/actions/nightly/resume")

    assert "tomorrow" in read(wrong, 422)
    assert 'value="freeze"' in wrong.text
    assert 400 == past.status_code
    assert (303, "/actions/nightly") == (done.status_code, done.headers["location"])
    text = read(shown)
    assert "freeze. ada, since " in text
    assert "2035 07:00:00Z" in text
    assert 'action="/actions/nightly/resume"' in shown.text
    assert 303 == resumed.status_code
    assert "Nightly <load> is resumed." in read(page.get("/actions/nightly"))
    notes = [r.note for r in read_by(engine, fetch_revisions, "nightly", limit=5)]
    assert any(note is not None and "freeze" in note for note in notes)


def test_chosen_steps_run_now(page: TestClient, engine: sa.Engine):
    """First only told, then done; without a step that it has, nothing runs."""
    steps = {"refresh": True, "publish": {"data": True}}
    post(engine, "shop", uid="both", name="both", operations=steps)
    known = ["refresh", "publish"]

    asked = read(page.get("/actions/both/run"))
    told = send(page, "/actions/both/run", known=known, steps="publish", dry_run="1")
    none = send(page, "/actions/both/run", known=known)
    strange = send(page, "/actions/both/run", known=known, steps="fly")
    done = send(page, "/actions/both/run", known=known, steps="publish", note="why")

    assert "It would: refresh, publish." in asked
    assert "It would: publish; leave out refresh." in read(told)
    assert "No step is chosen." in read(none, 422)
    assert "fly" in read(strange, 422)
    run = done.headers["location"]
    assert run.startswith("/operations/")
    # Told above whatever has become of it by then, and for as long as it is looked at.
    assert "This is the run that you asked for." in read(page.get(run))
    (row,) = fetch_rows(engine, sa.select(operations)).all()
    assert str(row.id) in run
    assert ["publish"] == row.details["steps"]


def test_past_occurrences_are_listed_then_run(page: TestClient, engine: sa.Engine):
    """Then it is seen how far they are, and the rest can be canceled."""
    today = get_now(engine).replace(hour=0, minute=0, second=0, microsecond=0)
    edit_action(engine, "nightly", created_at=today - timedelta(days=9))
    nights = {
        "from": f"{today - timedelta(days=4):%Y-%m-%dT%H:%M}",
        "until": f"{today - timedelta(days=1):%Y-%m-%dT%H:%M}",
    }
    path = "/actions/nightly/backfill"

    empty = read(page.get(path))
    listed = page.get(path, params=nights)
    wrong = page.get(path, params={"from": "yesterday"})
    fields = dict(
        re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', listed.text)
    )
    stale = send(page, path, **{**fields, "expected_count": "9"})
    begun = send(page, path, **fields)

    assert "Which past occurrences are to run after all?" in empty
    assert "3 of 3 occurrences would run" in read(listed)
    assert "yesterday" in read(wrong, 422)
    assert 409 == stale.status_code
    place = begun.headers["location"]
    assert "Running: 0 of 3 are over" in read(page.get(place))
    assert "Cancel the backfill" in read(page.get(f"{place}/cancel"))
    assert 303 == send(page, f"{place}/cancel").status_code
    assert "Canceled" in read(page.get(place))


def test_the_page_tells_why_at_any_instant(page: TestClient):
    """Local times are those of the rule; what is not one is said beside the field."""
    due = read(page.get("/actions/nightly?at=2035-07-02T02:30"))
    idle = read(page.get("/actions/nightly?at=2035-07-02T02:31%2B02:00"))
    wrong = read(page.get("/actions/nightly?at=soon"))

    assert "Will run." in due
    assert "2035 00:30:00Z" in due
    assert "Not due." in idle
    assert "soon" in wrong


def test_a_new_action_says_when_it_first_runs(page: TestClient, engine: sa.Engine):
    """Its page has everything but runs; so has that of an action of events."""
    post(engine, "shop", uid="seen", name="Seen", when={"on": "app.x"})

    shown = read(page.get("/actions/nightly"))

    assert "No run yet. First run in" in shown
    assert "02:30 comes twice: runs once, at the first pass" in shown.replace(
        "02:30 Comes", "02:30 comes"
    )
    assert "Nothing in 13 weeks." in shown
    assert "on an event" in read(page.get("/actions/seen"))


def test_runs_that_did_not_go_well_say_why(page: TestClient, engine: sa.Engine):
    """In a sentence with both clocks, and with what can be done."""
    occurrence = get_now(engine) - timedelta(hours=1)
    missed = tell_missed(occurrence) | {"finished_at": occurrence + MINUTE}
    put(engine, action_uid="nightly", app="shop", occurrence=occurrence, **missed)

    found = page.get("/actions/nightly")

    assert "outage" in read(found)
    assert "/actions/nightly/backfill?from=" in found.text
    assert "1 occurrence:" in read(found)


def test_the_last_change_is_shown(page: TestClient, engine: sa.Engine):
    """Against the document before; a pause changes no document."""
    document: dict[str, Any] = {"uid": "nightly", "name": "Renamed", "when": PARIS}
    post(engine, "shop", replace_it=True, **document)
    write_by(engine, pause_action, "nightly")

    shown = page.get("/actions/nightly").text

    assert "Document, revision 2 against 1" in shown
    assert re.search(r"<del>[^<]*Nightly &lt;load&gt;", shown)
    assert re.search(r"<ins>[^<]*Renamed", shown)


def test_recipients_are_told_with_the_reason(page: TestClient, engine: sa.Engine):
    """All, or only those who are in or out."""
    document: dict[str, Any] = {
        "uid": "mailing",
        "name": "mailing",
        "operations": {"send_email": {"template": "t"}},
        "recipients": {"users": ["ada"]},
    }
    post(engine, "shop", **document)

    assert "1 in" in read(page.get("/actions/mailing"))
    assert "named as 'ada'" in read(page.get("/actions/mailing/recipients?who=in"))
    assert "Nobody." in read(page.get("/actions/mailing/recipients?who=out"))


def test_action_without_a_mail_has_no_recipients(page: TestClient, engine: sa.Engine):
    """Whoever triggers it, or is named, gets nothing from steps that mail nobody."""
    when = {"after": "app.paid", "delay": "P7D"}
    steps = {"publish": {"data": True}}
    post(engine, "shop", uid="bare", name="bare", when=when, operations=steps)

    shown = read(page.get("/actions/bare"))

    assert "None of its steps mails anybody." in shown
    assert "would get its mails" not in shown


@pytest.mark.usefixtures("page")
def test_another_apps_actions_are_unknown(browse: Browser, engine: sa.Engine):
    """Where a query names them; a bulk change has none of them."""
    stranger = enter_as(browse(), engine, app="books")
    post(engine, "books", uid="own", name="Own")

    assert "Nightly" not in stranger.get("/actions?app=shop").text
    assert ["Own"] == [each["name"] for each in stranger.get("/actions.json").json()]
    assert [] == stranger.get("/actions.json?uid=nightly").json()
    for chosen in ("uid=nightly", "all=1&app=shop"):
        asked = stranger.get(f"/bulk/new?change=run&{chosen}")
        assert "Nightly" not in asked.text
    whole = read(stranger.get("/bulk/new?change=run&all=1"))
    assert "Run 1 action?" in whole


def test_a_deleted_action_can_still_be_looked_at(page: TestClient, engine: sa.Engine):
    """Its page says so, and offers nothing; one that never was is not found."""
    edit_action(engine, "nightly", deleted_at=MONDAY)

    shown = page.get("/actions/nightly")

    assert "This action was deleted at" in read(shown)
    assert "Run now" not in shown.text
    assert 404 == page.get("/actions/nightly/run").status_code
    assert 404 == page.get("/actions/never").status_code


def test_a_rule_that_cannot_be_read_leaves_the_rest(
    page: TestClient, engine: sa.Engine
):
    """The page of an action in quarantine says why, and how it is mended."""
    broken = json.dumps({"when": [{"cron_rule": "x", "timezone": "Mars/Base"}]})
    bad = {"quarantined_at": MONDAY, "quarantine_reason": "no zone 'Mars/Base'."}
    edit_action(engine, "nightly", timing=broken, **bad)

    shown = read(page.get("/actions/nightly"))

    assert "It cannot be read: no zone 'Mars/Base'. Since " in shown
    assert "Last runs" in shown
    assert "quarantined" in read(page.get("/actions"))


def test_what_is_due_between_two_minutes_is_told_by_the_second(
    page: TestClient, engine: sa.Engine
):
    """Its rule in words, and each of its next runs."""
    task = {"run_task": {"name": "poll", "queue": "theirs"}}
    often = {"every": "PT7S"}
    post(engine, "shop", uid="poll", name="Poll", operations=task, when=often)

    shown = read(page.get("/actions/poll"))

    assert "Every 7 s" in shown
    assert re.search(r"2 \S+ \S+ \d\d:\d\d:\d\d \+00:00 \d\d \d\d:\d\d:\d\dZ", shown)
