"""What a page asks before it is shown, and what it says when it is not."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from models.role import Role
from tests.integration.api.prepared import Prepared, digest_tables
from tests.integration.web.conftest import (
    FOREIGN,
    OWN,
    enter,
    enter_as,
    new_key,
    take_away,
)
from tests.integration.web.markup import Markup
from web.guarding import LARGEST_UNSIGNED, PageRoute
from web.rendering import SECTIONS
from web.routes import ROUTERS

PATHS = sorted(
    {
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, PageRoute)
        for method in route.methods or ()
    }
)


#: What is written where somebody signs in and asks.
USED = frozenset({"api_keys", "sign_ins"})


def fill(path: str) -> str:
    """Return *path* with something for each of its parameters."""
    return re.sub(r"{[^}]+}", "00000000-0000-0000-0000-000000000000", path)


def test_no_page_is_open(browser: TestClient):
    """Who is not signed in is led to where they can, or keeps what they typed."""
    for method, path in PATHS:
        answer = browser.request(method, fill(path))
        if method == "GET":
            assert 303 == answer.status_code, path
            assert answer.headers["location"].startswith("/sign-in?next="), path
        else:
            assert 401 == answer.status_code, path
            assert "nothing was saved" in answer.text, path


def find_fits(role: Role) -> list[tuple[str, str]]:
    """Return the routes whose least role is *role*."""
    found = {
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, PageRoute) and route.role is role
        for method in route.methods or ()
    }
    return sorted(found)


def test_lower_role_is_refused(browser: TestClient, engine: sa.Engine):
    """On each page that needs one more than they have, and whatever is sent to it."""
    answers = {}
    for lower, needed in pairwise(Role):
        enter_as(browser, engine, lower)
        for method, path in find_fits(needed):
            answer = browser.request(method, fill(path))
            answers[method, path] = answer.status_code

    assert dict.fromkeys(answers, 403) == answers
    assert {each for role in list(Role)[1:] for each in find_fits(role)} == {*answers}


def test_viewers_may_look_and_admins_manage():
    """What changes something needs an operator; keys and the record, an admin."""
    assert {"GET"} == {method for method, _path in find_fits(Role.VIEWER)}
    assert {
        *("changes", "changes/verify", "installation", "support-bundle", "invite"),
        *("keys/new", "keys/{key_id}/rotate", "keys/{key_id}/revoke"),
        "invitations/{invitation_id}/revoke",
    } == {
        path.removeprefix("/settings/")
        for _method, path in find_fits(Role.ADMIN)
        if path.startswith("/settings/")
    }


def test_pages_about_others_are_unknown(
    browser: TestClient, engine: sa.Engine, shop: Prepared
):
    """As what never was; and nothing is changed by it."""
    enter_as(browser, engine, app="books")
    before = digest_tables(engine, but=USED)
    ids = {**shop.ids, "part": "domains"}
    faults = []
    for method, path in PATHS:
        named = re.findall(r"{(\w+)[^}]*}", path)
        if not named or not set(named) <= ids.keys() or "worker_id" in named:
            continue
        asked = re.sub(r"{(\w+)[^}]*}", lambda found: ids[found[1]], path)
        answer = browser.request(method, asked)
        # without its fields, a form may be refused before it is looked at
        told = {404} if method == "GET" else {404, 422}
        if answer.status_code not in told or shop.mark in answer.text:
            faults.append(f"{method} {asked}: {answer.status_code}")

    assert [] == faults
    assert digest_tables(engine, but=USED) == before


def test_sign_in_leads_back_to_the_page(browser: TestClient, engine: sa.Engine):
    """With its query."""
    led = browser.get("/keys?text=a%26b&state=failed").headers["location"]
    (goal,) = parse_qs(urlsplit(led).query)["next"]
    entered = enter(browser, new_key(engine), next=goal)

    assert "/keys?text=a%26b&state=failed" == entered.headers["location"]


def test_part_of_a_page_does_not_become_another_page(browser: TestClient):
    """The script is told that the session has ended."""
    assert browser.get("/", headers={"X-Part": "1"}).status_code == 401


@pytest.mark.parametrize("place", ["guarding.authenticate", "context.Context.change"])
def test_what_was_typed_is_kept_if_the_database_is_away(
    ada: TestClient, monkeypatch: pytest.MonkeyPatch, place: str
):
    """
    Whether it is missed when somebody is let in, or later; and what it was for. So is
    a press of a button, which has nothing to load again.
    """
    take_away(monkeypatch, f"serving.{place}")
    path, typed = "/workers/queues/quick/pause?a=%26", {"note": 'it\'s <b>"mine"</b>'}
    answers = {
        is_kept: ada.post(path, data=typed, headers=origin)
        for origin, is_kept in ((OWN, True), (FOREIGN, False))
    }

    assert 503 == answers[True].status_code
    assert f'action="{path}"' in answers[True].text
    for is_kept, answer in answers.items():
        assert ("it&#39;s &lt;b&gt;" in answer.text) is is_kept
        assert ("Send it again" in answer.text) is is_kept
    assert "Send it again" in ada.post(path).text


@pytest.mark.parametrize(("origin", "is_kept"), [(OWN, True), (FOREIGN, False)])
def test_what_was_typed_is_kept_if_the_session_ended(
    browser: TestClient,
    origin: dict[str, str],
    is_kept: bool,  # noqa: FBT001 - a case
):
    """But what another site made a browser send is not offered to be sent again."""
    path, typed = "/mails/resend?state=failed", {"note": 'it\'s <b>"mine"</b>\n'}
    answer = browser.post(path, data=typed, headers=origin)

    assert 401 == answer.status_code
    assert (f'action="{path}"' in answer.text) is is_kept
    assert ("it&#39;s &lt;b&gt;" in answer.text) is is_kept


def test_large_form_of_a_stranger_is_not_read(browser: TestClient):
    """Nobody knows who sent it; their browser still has it."""
    path = next(path for method, path in PATHS if method == "POST")
    typed = {"note": "mine" * (LARGEST_UNSIGNED // 4)}
    answer = browser.post(fill(path), data=typed)

    assert 401 == answer.status_code
    assert "minemine" not in answer.text
    assert "too large to be kept here" in answer.text


def test_choice_is_kept_by_the_browser(ada: TestClient):
    """The page after it has the same address as before."""
    answers = {
        query: ada.get(f"/?a=1&{query}&b=2")
        for query in ("theme=dark", "clock=utc", "clock=moon")
    }

    assert {(303, "/?a=1&b=2")} == {
        (each.status_code, each.headers["location"]) for each in answers.values()
    }
    assert {
        "theme=dark": "minutehand-theme=dark",
        "clock=utc": "minutehand-clock=utc",
        "clock=moon": "",
    } == {
        query: each.headers.get("set-cookie", "").partition(";")[0]
        for query, each in answers.items()
    }


def test_page_that_is_none_is_told_on_a_page(browser: TestClient, engine: sa.Engine):
    """Programs get a problem at the same address."""
    wanted = {"Accept": "text/html,*/*"}
    outside = browser.get("/nothing", headers=wanted)
    enter_as(browser, engine)
    page = browser.get("/nothing", headers=wanted)
    problem = browser.get("/nothing")

    assert (404, 404) == (outside.status_code, page.status_code)
    assert "<h1>" in page.text
    assert "application/problem+json" == problem.headers["content-type"]
    assert "/actions" not in Markup("/nothing", outside.text).links


def test_page_that_is_none_links_to_no_other_site(browser: TestClient):
    """Browsers take what begins with two slashes for a host."""
    page = browser.get(
        "http://testserver//evil.example", headers={"Accept": "text/html"}
    )

    assert page.status_code == 404
    assert 'href="//' not in page.text


def test_refusals_are_in_the_frame_of_all_pages(browser: TestClient, engine: sa.Engine):
    """Whoever is signed in goes on from there, wherever they came to."""
    enter_as(browser, engine, Role.VIEWER)
    expected = {"/nothing": 404, "/actions/nope": 404, "/settings/keys/new": 403}
    frame = {section.path for section in SECTIONS}

    pages = {p: browser.get(p, headers={"Accept": "text/html"}) for p in expected}

    assert expected == {path: page.status_code for path, page in pages.items()}
    for path, page in pages.items():
        assert frame <= {*Markup(path, page.text).links}, path


def test_page_without_a_database_says_so(
    ada: TestClient, monkeypatch: pytest.MonkeyPatch
):
    """With when to ask again, and without a trace."""
    take_away(monkeypatch, "serving.guarding.authenticate")
    answer = ada.get("/")

    assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
    assert "The database does not answer" in answer.text
