"""People at the pages: they sign in, and nobody else's page acts in their name."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from models.database.tables import api_keys, sign_ins
from models.role import Role
from serving.access.manage_keys import revoke_key
from serving.access.sign_ins import LINK_COMMAND
from settings import read_settings
from tests.database import fetch_rows, write_by
from tests.integration.web.conftest import (
    FOREIGN,
    OWN,
    Browser,
    enter,
    enter_as,
    new_key,
    new_link,
    take_away,
)


def change(browser: TestClient, headers: dict[str, str] | None = None) -> int:
    body = {"role": "viewer", "app": None}
    return browser.post("/api/v1/keys", json=body, headers=headers).status_code


def test_page_signs_in_with_a_key(browser: TestClient, engine: sa.Engine):
    """Then it says who they are, and the API knows them."""
    before = browser.get("/sign-in")
    entered = enter(browser, new_key(engine))
    after = browser.get("/sign-in")

    assert 'type="password"' in before.text
    assert (303, "/") == (entered.status_code, entered.headers["location"])
    assert "<b>ada</b>, admin of" in after.text
    assert browser.get("/api/v1/keys").status_code == 200
    assert change(browser) == 201


def test_nothing_typed_is_no_key(browser: TestClient):
    """It is not called a typo; and the page says, to be pasted, what prints a link."""
    answer = enter(browser, "  ")

    assert 400 == answer.status_code
    assert "Nothing was typed." in answer.text
    assert f"<code>{LINK_COMMAND}</code>" in answer.text


def test_cookie_is_for_the_server_alone(browser: TestClient, engine: sa.Engine):
    """No script reads it, and no other site's form brings it."""
    cookie = enter(browser, new_key(engine)).headers["set-cookie"].lower()

    assert cookie.startswith("minutehand=mhs_")
    for part in ("httponly", "samesite=lax", "path=/", "max-age=43200"):
        assert part in cookie.split("; ")
    assert "secure" not in cookie
    assert "domain" not in cookie


def test_cookie_behind_tls_is_sent_by_tls_alone(browse: Browser, engine: sa.Engine):
    """And its name makes browsers accept it from this very host only."""
    browser = browse(web_url="https://minutehand.example.org")
    cookie = enter(browser, new_key(engine)).headers["set-cookie"].lower()

    assert cookie.startswith("__host-minutehand=mhs_")
    assert "secure" in cookie.split("; ")
    assert browser.get("/api/v1/keys").status_code == 200


def test_link_signs_in_once_and_looking_does_not_use_it(
    browser: TestClient, browse: Browser, engine: sa.Engine
):
    """Whatever looks at a link before its owner does changes nothing."""
    secret = new_link(engine)
    pages = [browser.get("/sign-in") for _ in range(3)]
    first = enter(browser, secret)
    second = enter(browse(), secret)

    for page in pages:
        assert "This link signs you in once." in page.text
        # of whoever has no script
        assert "paste what stands behind its #" in page.text
    assert 303 == first.status_code
    assert 403 == second.status_code
    assert "This link was used" in second.text
    assert "<b>ada@host</b>" in browser.get("/sign-in").text


def test_secret_that_is_none_is_refused(browser: TestClient):
    """On the page itself, where another can be given."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for secret, told in (
        ("mh_abc", "it has a typo"),
        ("mhl_abc", "This link was used"),
        ("\0'\"<script>", "This is not an API key"),
    ):
        body = urlencode({"secret": secret})
        answer = browser.post("/sign-in", content=body, headers=form)

        assert (403, secret) == (answer.status_code, secret)
        assert told in answer.text
        assert 'role="alert"' in answer.text
        assert "set-cookie" not in answer.headers


def test_key_that_ended_signs_nobody_in(browser: TestClient, engine: sa.Engine):
    """And who signed in with it before is signed out."""
    key = new_key(engine)
    enter(browser, key)
    write_by(engine, revoke_key, key.split("_")[1])

    assert "The API key was revoked." in enter(browser, key).text
    assert browser.get("/api/v1/keys").status_code == 401
    assert "Sign in to Minutehand" in browser.get("/sign-in").text


def test_signing_out_ends_the_session(ada: TestClient, engine: sa.Engine):
    """In the database, not only in the ada."""
    cookie = ada.cookies["minutehand"]
    left = ada.post("/sign-out")
    ada.cookies.clear()
    kept = ada.get("/api/v1/keys", headers={"Cookie": f"minutehand={cookie}"})

    assert (303, "/sign-in") == (left.status_code, left.headers["location"])
    assert 'minutehand=""' in left.headers["set-cookie"]
    assert 401 == kept.status_code
    assert fetch_rows(engine, sa.select(sign_ins)).all() == []


def test_signing_in_again_ends_the_session_before(
    browser: TestClient, engine: sa.Engine
):
    """A browser has one."""
    for role in (Role.ADMIN, Role.VIEWER):
        enter_as(browser, engine, role)

    assert [("viewer",)] == fetch_rows(engine, sa.select(sign_ins.c.role)).all()
    assert browser.get("/api/v1/keys").status_code == 403


def test_change_with_a_session_comes_from_an_own_page(ada: TestClient):
    """Reading is free, for no other site can see what is read."""
    del ada.headers["Origin"]  # each case has its own, or none
    origins: list[tuple[dict[str, str], int]] = [
        (OWN, 201),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 201),
        (FOREIGN, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://testserver.evil.example"}, 403),
        ({"Origin": "http://testserver:81"}, 403),
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site", **OWN}, 403),
        ({"Sec-Fetch-Site": "same-site", **OWN}, 403),
        ({"Sec-Fetch-Site": "none", **OWN}, 403),
    ]

    assert origins == [(each, change(ada, each)) for each, _status in origins]
    assert {200} == {
        ada.get("/api/v1/keys", headers=each).status_code for each, _ in origins
    }


def test_change_with_a_key_needs_no_origin(browser: TestClient, engine: sa.Engine):
    """No browser adds a key by itself; the key counts, not the session."""
    enter_as(browser, engine, Role.VIEWER)
    headers = {"Authorization": f"Bearer {new_key(engine)}", **FOREIGN}

    assert 201 == change(browser, headers)


def test_forms_of_other_sites_sign_nobody_in_or_out(
    browser: TestClient, engine: sa.Engine
):
    """Neither as somebody else, nor against their will."""
    mine, theirs = new_key(engine), new_key(engine, Role.VIEWER)
    enter(browser, mine)
    answers = [
        enter(browser, theirs, headers=FOREIGN),
        browser.post("/sign-out", headers=FOREIGN),
    ]
    del browser.headers["Origin"]
    answers.append(browser.post("/sign-out"))

    assert [403, 403, 403] == [answer.status_code for answer in answers]
    assert "admin of" in browser.get("/sign-in").text


def test_page_is_closed_to_everything_else(browser: TestClient):
    """No frame, no form to another site, nothing that is written into the page."""
    page = browser.get("/sign-in")
    policy = page.headers["content-security-policy"]

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "form-action 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["referrer-policy"] == "same-origin"
    assert not re.search(r"<script>|style=|\son\w+=", page.text)


def test_static_files_are_kept_as_long_as_they_are_the_same(browser: TestClient):
    """Their address has their digest; at another address they are asked for again."""
    (address,) = re.findall(
        r'href="(/static/style[^"]+)"', browser.get("/sign-in").text
    )
    style, other = browser.get(address), browser.get("/static/style.css?v=older")

    assert style.headers["content-type"].startswith("text/css")
    assert style.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in style.headers["cache-control"]
    assert other.headers["cache-control"] == "no-cache"
    assert browser.get("/static/other.css").status_code == 404
    assert browser.get("/static/..%2Frendering.py").status_code == 404


def test_what_is_in_the_address_is_shown_as_text(browser: TestClient):
    """It comes from anybody."""
    page = browser.get("/sign-in", params={"link": '"><script>', "next": '/"><b>'})

    assert "<script>" not in page.text
    assert "<b>" not in page.text


def test_whoever_signed_in_stays_here(browser: TestClient, engine: sa.Engine):
    """They are sent on to a page of ours, and to no other."""
    key, own = new_key(engine), "/actions?app=shop"
    foreign = (
        *("//evil.example", "/\\evil.example", "https://evil.example"),
        *("/a\r\nSet-Cookie: x=y", "/\t/evil.example", "javascript:alert(1)"),
    )

    assert {own: own, **dict.fromkeys(foreign, "/")} == {
        goal: enter(browser, key, next=goal).headers["location"]
        for goal in (own, *foreign)
    }


def test_those_who_get_in_are_no_attempts(browse: Browser, engine: sa.Engine):
    """Nor does anybody who tries keep those out who share their address."""
    browser, key = browse(at_once=2), new_key(engine)
    secrets = [key] * 3 + ["mh_x"] * 3 + [key]
    statuses = [enter(browser, secret).status_code for secret in secrets]

    assert [303] * 3 + [403, 403, 429] + [303] == statuses


def test_form_has_bounds(browser: TestClient):
    """It holds one secret and one path."""
    long = enter(browser, "x" * 5000)
    broken = browser.post("/sign-in", content=b"secret=\xff")

    assert (413, 400) == (long.status_code, broken.status_code)
    assert 'role="alert"' in long.text


PROXIES = {
    "MINUTEHAND_WEB_PROXIES": "10.0.0.7, 192.168.2.0/24",
    "MINUTEHAND_WEB_PROXY_HEADER": "X-Forwarded-User",
    "MINUTEHAND_WEB_PROXY_ROLE": "admin",
}
ZOE = {"X-Forwarded-User": "zoe@example.com"}


@pytest.fixture
def behind(browse: Browser) -> Browser:
    """Give a function that opens a connection to an API that knows proxies."""
    known = read_settings(PROXIES, None)
    names = ("web_proxies", "web_proxy_header", "web_proxy_role")
    settings = {name: getattr(known, name) for name in names}

    def connect(address: str) -> TestClient:
        return browse(address, **settings)

    return connect


def test_attempts_are_counted_by_the_address_behind_our_proxies(browse: Browser):
    """What a client adds to the header counts for nothing, nor a stranger's."""
    proxies = read_settings(PROXIES, None).web_proxies
    proxy, stranger = (
        browse(address, at_once=1, web_proxies=proxies)
        for address in ("10.0.0.7", "10.1.1.1")
    )

    def attempt(browser: TestClient, *told: str) -> int:
        headers = [("X-Forwarded-For", each) for each in told]
        return enter(browser, "mh_x", headers=headers).status_code

    assert [403, 429, 429, 403, 403] == [
        attempt(proxy, "192.0.2.1"),
        attempt(proxy, "203.0.113.1, 192.0.2.1, 192.168.2.9"),
        attempt(proxy, "203.0.113.2", "192.0.2.1"),
        attempt(proxy, "192.0.2.2"),
        attempt(proxy),
    ]
    assert [403, 429] == [attempt(stranger, f"192.0.2.{each}") for each in (3, 4)]


def test_proxy_is_believed_if_it_is_listed(behind: Browser):
    """Anybody can send a header."""
    expected = {"10.0.0.7": 200, "192.168.2.9": 200, "10.0.0.8": 401, "::1": 401}

    assert expected == {
        address: behind(address).get("/api/v1/keys", headers=ZOE).status_code
        for address in expected
    }


def test_changes_are_those_of_the_person_at_the_proxy(behind: Browser):
    """By name, and only from a page of ours: the proxy's sign-in is a cookie."""
    proxy = behind("10.0.0.7")

    assert 403 == change(proxy, {**ZOE, **FOREIGN})
    assert 201 == change(proxy, ZOE)
    noted = proxy.get("/api/v1/changes", headers=ZOE).json()["items"][0]
    assert ("zoe@example.com", None) == (noted["by"], noted["key_id"])
    page = proxy.get("/sign-in", headers=ZOE).text
    assert "<b>zoe@example.com</b>" in page
    assert "Sign out" not in page


def test_header_that_has_not_one_name_lets_nobody_in(behind: Browser):
    """A proxy that adds to the client's header would let anybody be anybody."""
    proxy = behind("10.0.0.7")
    for names in (["  "], ["x" * 201], ["a\tb"], ["eve", "zoe@example.com"]):
        headers = [("X-Forwarded-User", name) for name in names]
        answer = proxy.get("/api/v1/keys", headers=headers)

        assert (401, names) == (answer.status_code, names)
        assert "X-Forwarded-User" in answer.json()["detail"]


def test_whoever_the_proxy_names_not_needs_a_key(behind: Browser, engine: sa.Engine):
    """A proxy may let programs through, which bring their own."""
    proxy = behind("10.0.0.7")
    headers = {"Authorization": f"Bearer {new_key(engine, Role.VIEWER)}", **ZOE}

    assert 401 == proxy.get("/api/v1/keys").status_code
    assert 403 == proxy.get("/api/v1/keys", headers=headers).status_code


@pytest.mark.usefixtures("ada")
def test_signing_in_is_a_use_of_the_key(engine: sa.Engine):
    """A key by which somebody looks at pages is not called one that nobody needs."""
    (used,) = fetch_rows(engine, sa.select(api_keys.c.last_used_at)).scalars()
    assert used is not None


def test_use_that_cannot_be_noted_refuses_nobody(
    browser: TestClient, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """The session has begun by then, and the database was lost only since."""
    take_away(monkeypatch, "web.sign_in.routes.note_use")

    enter_as(browser, engine)
    assert "<b>ada</b>, admin of" in browser.get("/sign-in").text
