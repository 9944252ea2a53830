"""What Now says, to whom, and what one can do there."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from actions.lease import Leader
from models.database.tables import processes, small_apps
from models.role import Role
from tests.database import execute, fetch_rows
from tests.integration.api.prepared import Prepared
from tests.integration.web.conftest import Browser, Person, enter_as, read, take_away
from tests.scheduling import edit_action, get_now, post, put
from tests.servers import wait_until

NOBODY = Prepared("shop", "")


def fail(engine: sa.Engine, app: str, number: int, error: str) -> None:
    """Let an operation of *app* have failed just now."""
    ended = {"state": "failed", "error": error, "finished_at": get_now(engine)}
    put(engine, number, app=app, action_uid=f"{app}-{number}", **ended)


def test_verdict_is_the_title(admin: Person, engine: sa.Engine):
    """Nobody leads; with a leader, what failed is said."""
    fail(engine, "shop", 900, "call_webhook: it answered 410 Gone")

    assert "No scheduler leads." in admin.look("/")

    Leader(engine).hold()
    page = admin.look("/")

    assert "call_webhook: it answered 410 Gone" in page
    assert "No scheduler leads" not in page
    for part in ("alarms", "verdict", "figures", "rail", "failures", "not-run"):
        assert f'id="{part}"' in page


def test_findings_lead_to_where_something_is_done(admin: Person, engine: sa.Engine):
    """On Now, which counts those of a kind, and on the page of doctor."""
    Leader(engine).hold()
    for name in ("one", "two"):
        post(engine, "shop", uid=name, name=name)
        bad = {"quarantined_at": get_now(engine), "quarantine_reason": "no such zone"}
        edit_action(engine, name, **bad)

    now, doctor = admin.look("/"), admin.look("/settings/doctor")

    href = 'href="/actions?state=quarantined">'
    many = doctor.count(f"{href}The actions</a>")
    assert many >= 2
    assert f"{href}an action is quarantined</a> ({many})" in now


def test_each_id_is_there_once(admin: Person, engine: sa.Engine):
    """The script puts parts in place by their ids, and signs have ids, too."""
    of, now = {"app": "shop", "action_uid": "weekly-report"}, get_now(engine)
    put(engine, 0, **of, recorded_at=now, state="running", claim_token=uuid4())
    for number, state in enumerate(("failed", "missed", "skipped"), 1):
        ended = {"recorded_at": now, "finished_at": now, "state": state}
        put(engine, number, **of, **ended)
    ids = re.findall(r' id="([^"]+)"', admin.look("/"))

    assert [] == [each for each in set(ids) if ids.count(each) > 1]


@pytest.mark.usefixtures("shop")
def test_those_of_an_app_see_their_app(browse: Browser, engine: sa.Engine):
    """Neither what failed elsewhere, who leads, nor how quiet the database is."""
    fail(engine, "shop", 900, "ours failed")
    fail(engine, "books", 901, "Qbooksq failed")
    put(engine, 902, app="shop", action_uid="waits")
    execute(engine, sa.delete(processes))
    Leader(engine).hold()
    page = read(enter_as(browse(), engine, app="shop"), "/")

    assert "ours failed" in page
    assert "No worker takes quick" in page
    assert "Start a worker" not in page  # which is not for them to do
    for others in ("Qbooksq", "fence", 'id="quiet"'):
        assert others not in page


def test_part_that_cannot_be_read_leaves_the_rest(
    admin: Person, monkeypatch: pytest.MonkeyPatch
):
    """It says which, and why; the verdict calls nothing fine that is unknown."""
    take_away(monkeypatch, "web.now.routes.fetch_failures")
    page = admin.look("/")

    assert "What failed could not be read." in page
    assert "the database does not answer" in page
    assert 'id="next"' in page
    assert "nothing failed" not in page


def test_everything_is_paused_and_resumed(admin: Person):
    """With a note and an end, and undo; the scheduler's own actions go on."""
    count = re.findall(r"Pause everything: ([\d,]+) actions", admin.look("/pause"))[0]
    page = admin.do(
        "/pause", note="until the import is fixed", until="2099-01-01T08:30"
    )

    assert f"Paused everything until 1 Jan 08:30 (UTC): {count} actions rest" in page
    assert 'action="/resume"' in page
    assert "until the import is fixed" in page
    assert "Everything is paused since" in page

    answer = admin.client.post("/resume")

    assert answer.status_code == 303
    after = admin.look("/")
    assert "Resumed:" in after
    assert "Everything is paused since" not in after


def test_end_is_on_the_clock_of_the_page(admin: Person):
    """That of the browser, if its own clock was chosen."""
    admin.client.cookies.set("minutehand-zone", "America/New_York")
    admin.client.cookies.set("minutehand-clock", "mine")
    page = admin.do("/pause", until="2099-07-01T08:30")

    assert "(2099-07-01T12:30:00Z)" in page or "12:30:00Z" in page


def test_bad_pause_keeps_what_was_typed(admin: Person):
    """And says what is wrong, in the words of the API; nothing is paused."""
    for until, status in (("yesterday", 422), ("2001-01-01T00:00", 400)):
        answer = admin.send("/pause", until=until, note="keep me")

        assert status == answer.status_code
        assert 'value="keep me"' in answer.text
        assert until[:4] in answer.text
    assert "Everything is paused" not in admin.look("/")


def test_key_of_an_app_pauses_its_app(
    browse: Browser, engine: sa.Engine, shop: Prepared
):
    """And nothing else."""
    operator = Person(enter_as(browse(), engine, Role.OPERATOR, "shop"), shop)
    page = operator.do("/pause", note="ours")

    assert "Paused small app shop" in page
    paused = sa.select(small_apps.c.uid).where(small_apps.c.paused_at.is_not(None))
    assert [("shop",)] == fetch_rows(engine, paused).all()


def test_empty_installation_gets_a_first_action(ada: TestClient, engine: sa.Engine):
    """Three cards; one address is enough."""
    Leader(engine).hold()
    person = Person(ada, NOBODY)
    page = person.look("/")

    assert "Three ways to begin" in page
    for card in ("Post an example action", "Look at the demo", "five-minute guide"):
        assert card in page
    assert "No run yet" in person.look("/operations?range=all")

    person.client.cookies.set("minutehand-zone", "Europe/Paris")
    answer = person.client.post("/begin", data={"email": "a@example.com"})

    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/actions/")
    after = person.look("/")
    assert "say hello" in after
    assert "Nothing is scheduled yet" not in after
    again = person.client.post("/begin", data={"email": "a@example.com"})
    assert (422, True) == (again.status_code, "is there already" in again.text)


def test_bad_address_is_said_at_its_field(ada: TestClient):
    """What is stored then, test_begin.py says: nothing."""
    answer = ada.post("/begin", data={"email": "nobody"})

    assert answer.status_code == 422
    assert 'id="wrong-email"' in answer.text


def test_guide_can_be_read(admin: Person):
    """It leads to the pages that it names."""
    assert "The night the clocks change" in admin.look("/guide")


def test_search_leads_to_the_only_hit(admin: Person, engine: sa.Engine):
    """An id, the name of an action or the uid of an app; several are listed."""
    post(engine, "shop", name="Quokka report", uid="quokka:1")
    run = admin.shop.ids["operation_id"]

    for query, path in (
        (run, f"/operations/{run}"),
        ("quokka", "/actions/quokka%3A1"),
        ("shop", "/apps/shop"),
    ):
        answer = admin.client.get("/search", params={"q": query})
        assert (303, path) == (answer.status_code, answer.headers["location"])
    assert "fit “o”" in admin.look("/search?q=o")
    assert "Nothing is called “<b>”" in admin.look("/search?q=<b>")
    assert "What do you look for?" in admin.look("/search")


def look_ahead(person: Person) -> str:
    """Return what Now says of quiet windows, which a thread counts meanwhile."""

    def find() -> re.Match[str] | None:
        return re.search(r'id="quiet">(.*?)</div>', person.look("/"), re.DOTALL)

    found = wait_until(find, what="quiet windows")
    assert found is not None
    return " ".join(re.sub("<[^>]+>", "", found[1]).split())


def test_quiet_windows_are_told(admin: Person, engine: sa.Engine):
    """The next one; what is due each hour leaves many."""
    post(engine, "shop", name="hourly", when={"cron_rule": "0 * * * *"})

    told = look_ahead(admin)

    assert told.startswith("Quiet from ")
    assert "more windows within 7 d" in told


def test_without_a_quiet_window_the_cheapest_time_is_told(
    admin: Person, engine: sa.Engine
):
    """With the action that it costs, and what it costs at once."""
    post(engine, "shop", name="minutely", when={"cron_rule": "* * * * *"})

    told = look_ahead(admin)

    assert told.startswith("Never quiet for 20 min within 7 d.")
    assert "4 late, 16 missed (minutely)" in told
    # and of the others there, if one is due just now
    assert re.search(r"If it were away from now on: \d+ late, \d+ missed", told)
