"""Signing in with the company's identity provider: a real one, and one that lies."""

from __future__ import annotations

import json
import re
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2
import pytest
import sqlalchemy as sa
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from pydantic import SecretStr
from starlette.testclient import TestClient

from models.database.tables import sign_ins
from operations.adapters import identity_provider
from serving.access.sign_ins import SESSION_FOR
from tests.database import fetch_rows
from tests.identity_providers import (
    CLIENT,
    SECRET,
    RealProvider,
    Rogue,
    reply,
    run_provider,
    run_rogue,
)
from tests.integration.web.conftest import Browser
from tests.scheduling import get_now

Staff = Callable[..., TestClient]

GROUPS = {
    "ops": {"*": "admin"},
    "staff": {"*": "viewer"},
    "shop-team": {"shop": "editor"},
    "book-team": {"books": "operator", "shop": "viewer"},
}


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealProvider]:
    """Give a real provider."""
    with run_provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture
def rogue() -> Iterator[Rogue]:
    """Give a provider that lies as it is told."""
    with run_rogue() as running:
        yield running


@pytest.fixture
def staff(browse: Browser) -> Staff:
    """Give a function that opens a browser at an installation of a company."""

    def open_browser(issuer: str, **more: Any) -> TestClient:
        given = {
            "oidc_issuer": issuer,
            "oidc_client_id": CLIENT,
            "oidc_client_secret": SecretStr(SECRET),
            "oidc_groups": GROUPS,
        }
        return browse(**given | more)

    return open_browser


def leave(browser: TestClient, goal: str = "") -> str:
    """Return where the provider signs in."""
    left = browser.get("/sign-in/company", params={"next": goal} if goal else None)
    assert 303 == left.status_code, left.text
    return str(left.headers["location"])


def enter(browser: TestClient, provider: RealProvider, sub: str) -> httpx2.Response:
    """Sign in as *sub*."""
    return browser.get(provider.sign_in(leave(browser), sub))


def enter_rogue(browser: TestClient, rogue: Rogue) -> httpx2.Response:
    return browser.get(rogue.sign_in(leave(browser)))


def find_sessions(engine: sa.Engine) -> list[str]:
    kinds = fetch_rows(engine, sa.select(sign_ins.c.kind)).scalars()
    return [kind for kind in kinds if kind != "used"]


def demand_nobody(browser: TestClient, engine: sa.Engine) -> None:
    """Demand that nobody is signed in, anyhow."""
    assert [] == find_sessions(engine)
    assert 401 == browser.get("/api/v1/keys").status_code
    assert "minutehand" not in browser.cookies


def test_person_comes_in_as_the_table_says(staff: Staff, provider: RealProvider):
    """And to the page that they wanted; what they change is theirs."""
    provider.add("ada-1", email="ada@example.com", groups=["ops", "other"])
    browser = staff(provider.issuer)
    page = browser.get("/sign-in?next=/keys")
    (link,) = re.findall(r'href="(/sign-in/company[^"]*)"', page.text)
    address = browser.get(link).headers["location"]
    entered = browser.get(provider.sign_in(address, "ada-1"))
    made = browser.post("/api/v1/keys", json={"role": "viewer", "app": None})
    noted = browser.get("/api/v1/changes").json()["items"][0]

    assert f"Sign in with {urlsplit(provider.issuer).netloc}" in page.text
    assert (303, "/keys") == (entered.status_code, entered.headers["location"])
    assert 201 == made.status_code
    assert ("ada@example.com (ada-1)", None) == (noted["by"], noted["key_id"])
    assert "admin of all small apps" in browser.get("/sign-in").text


def test_provider_hears_no_more_than_it_must(staff: Staff, provider: RealProvider):
    """State, nonce and challenge are new each time; the secret stays in the cookie."""
    browser = staff(provider.issuer)
    first, second = (parse_qs(urlsplit(leave(browser)).query) for _ in range(2))
    cookie = browser.cookies["minutehand-pending"]

    assert {
        *("response_type", "client_id", "redirect_uri", "scope", "state", "nonce"),
        *("code_challenge", "code_challenge_method"),
    } == set(first)
    assert ["http://testserver/sign-in/company/back"] == first["redirect_uri"]
    for name in ("state", "nonce", "code_challenge"):
        assert first[name] != second[name]
    assert not any(cookie in each for values in first.values() for each in values)


def test_cookies_behind_tls(staff: Staff, provider: RealProvider):
    """Both are of this host alone, and no script reads them."""
    browser = staff(provider.issuer, web_url="https://minutehand.example.org")
    left = browser.get("/sign-in/company?next=/a%3Fb%3Bc")
    cookie = left.headers["set-cookie"].lower()

    assert cookie.startswith("__host-minutehand-pending=mhp_")
    for part in ("httponly", "samesite=lax", "path=/", "max-age=900", "secure"):
        assert part in cookie.split("; ")
    back = parse_qs(urlsplit(left.headers["location"]).query)["redirect_uri"]
    assert ["https://minutehand.example.org/sign-in/company/back"] == back


def test_groups_are_roles(staff: Staff, provider: RealProvider):
    """The greatest counts."""
    browser = staff(provider.issuer)
    for groups, told in (
        (["shop-team"], "editor of small app shop"),
        (["staff"], "viewer of all small apps"),
        ("ops", "admin of all small apps"),
        (["ops", "shop-team", "book-team"], "admin of all small apps"),
    ):
        provider.add("zoe", groups=groups)
        enter(browser, provider, "zoe")

        assert told in browser.get("/sign-in").text


def test_person_of_two_apps_chooses(staff: Staff, provider: RealProvider):
    """A session is of one; each choice works once."""
    provider.add("zoe", groups=["shop-team", "book-team"])
    browser = staff(provider.issuer)
    page = enter(browser, provider, "zoe")
    secrets = re.findall(r'name="secret" value="([^"]+)"', page.text)
    answers = [browser.post("/sign-in", data={"secret": secrets[1]}) for _ in range(2)]

    assert 200 == page.status_code
    assert "no-store" == page.headers["cache-control"]
    assert "books, as operator" in page.text
    assert "shop, as editor" in page.text
    assert [303, 403] == [answer.status_code for answer in answers]
    assert "editor of small app shop" in browser.get("/sign-in").text


def test_nobody_without_a_group_comes_in(
    staff: Staff, provider: RealProvider, engine: sa.Engine
):
    """They are told why, and by whom it is mended."""
    browser = staff(provider.issuer)
    unfit: tuple[object, ...] = (None, [], ["other"], [1, None, {}], {"ops": 1})
    for groups in unfit:
        provider.add("eve", groups=groups)
        answer = enter(browser, provider, "eve")

        assert (403, groups) == (answer.status_code, groups)
        assert "eve is in no group that may use this installation" in answer.text
        assert 'role="alert"' in answer.text
        demand_nobody(browser, engine)


def test_session_ends_with_the_token(staff: Staff, rogue: Rogue, engine: sa.Engine):
    """But with ours if the token lasts longer."""
    for life, expected in (
        (timedelta(minutes=5), timedelta(minutes=5)),
        (timedelta(days=900_000), SESSION_FOR),
    ):
        now = get_now(engine)
        end = int(now.timestamp()) + int(life.total_seconds())
        rogue.claims = {"exp": end}
        cookie = enter_rogue(staff(rogue.issuer), rogue).headers["set-cookie"]
        sessions = sa.select(sign_ins.c.expires_at).where(sign_ins.c.kind == "session")
        latest = sessions.order_by(sign_ins.c.created_at.desc()).limit(1)
        kept = fetch_rows(engine, latest).scalar_one()

        assert -timedelta(seconds=1) <= kept - (now + expected) < timedelta(minutes=1)
        age_s = int(re.findall(r"Max-Age=(\d+)", cookie)[0])
        assert expected.total_seconds() - 60 < age_s <= expected.total_seconds()


def test_code_is_redeemed_by_us_alone(staff: Staff, rogue: Rogue):
    """With the verifier that only this browser's cookie gives, and our secret."""
    browser = staff(rogue.issuer)
    assert 303 == enter_rogue(browser, rogue).status_code
    form, headers = rogue.asked[-1]
    pair = b64decode(headers["authorization"].removeprefix("Basic ")).decode()

    assert rogue.has_verifier()
    assert "the code" == form["code"]
    assert "http://testserver/sign-in/company/back" == form["redirect_uri"]
    assert [CLIENT, SECRET] == [
        unquote(each.replace("+", " ")) for each in pair.split(":")
    ]


@pytest.mark.parametrize(
    ("secret", "ways", "expected"),
    [
        (SecretStr(SECRET), ["client_secret_post"], {CLIENT, SECRET}),
        (None, None, {CLIENT}),
    ],
)
def test_secret_is_shown_as_the_provider_wants(
    staff: Staff,
    rogue: Rogue,
    secret: SecretStr | None,
    ways: list[str] | None,
    expected: set[str],
):
    """In the form, or not at all if there is none."""
    rogue.answers["/.well-known/openid-configuration"] = rogue.describe(
        token_endpoint_auth_methods_supported=ways
    )
    browser = staff(rogue.issuer, oidc_client_secret=secret)
    assert 303 == enter_rogue(browser, rogue).status_code
    form, headers = rogue.asked[-1]

    assert "authorization" not in headers
    assert expected <= set(form.values())


def test_groups_may_be_told_elsewhere(staff: Staff, rogue: Rogue):
    """If the token is silent, whoever has it is asked, and must mean the same one."""
    told = {"sub": "ada-1", "groups": ["staff"], "email": "ada@example.com"}
    rogue.answers["/.well-known/openid-configuration"] = rogue.describe(
        userinfo_endpoint=f"{rogue.issuer}/userinfo"
    )
    rogue.claims = {"groups": None}
    rogue.answers["/userinfo"] = told
    browser, other = staff(rogue.issuer), staff(rogue.issuer)
    assert 303 == enter_rogue(browser, rogue).status_code
    rogue.answers["/userinfo"] = told | {"sub": "eve"}

    assert "<b>ada@example.com (ada-1)</b>, viewer of" in browser.get("/sign-in").text
    assert 403 == enter_rogue(other, rogue).status_code


def test_mail_address_that_is_not_theirs_is_no_name(staff: Staff, rogue: Rogue):
    """Whoever may type any address must not be taken for somebody else."""
    rogue.claims = {"email": "boss@example.com", "email_verified": False}
    browser = staff(rogue.issuer)
    enter_rogue(browser, rogue)

    assert "<b>ada-1</b>" in browser.get("/sign-in").text


def test_new_keys_of_the_provider_are_asked_for(staff: Staff, rogue: Rogue):
    """It changes them when it likes."""
    browser = staff(rogue.issuer)
    enter_rogue(browser, rogue)
    rogue.key = RSAKey.generate_key(parameters={"kid": "second"})

    assert 303 == enter_rogue(browser, rogue).status_code
    rogue.key = RSAKey.generate_key(parameters={"kid": "second"})
    assert 303 == enter_rogue(browser, rogue).status_code


def sign_none(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "kid": "first"}, claims)
    texts = [urlsafe_b64encode(json.dumps(each).encode()).decode() for each in parts]
    return ".".join(each.rstrip("=") for each in texts) + "."


def sign_by_secret(claims: dict[str, Any]) -> str:
    key = OctKey.import_key(SECRET, {"kid": "first"})
    return jwt.encode({"alg": "HS256", "kid": "first"}, claims, key, ["HS256"])


def sign_by_other(claims: dict[str, Any]) -> str:
    key = RSAKey.generate_key(parameters={"kid": "first"})
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, key)


#: What each lacks, and who made it: of whom none is the provider.
BAD_TOKENS: tuple[
    tuple[dict[str, Any], Callable[[dict[str, Any]], Any] | None], ...
] = (
    ({"iss": "https://evil.example"}, None),
    ({"aud": "other"}, None),
    ({"aud": [CLIENT, "other"], "azp": "other"}, None),
    ({"aud": None}, None),
    ({"azp": "other"}, None),
    ({"nonce": "other"}, None),
    ({"nonce": None}, None),
    ({"exp": 1_700_000_000}, None),
    ({"exp": None}, None),
    ({"exp": "tomorrow"}, None),
    ({"iat": 2**40}, None),
    ({"nbf": 2**40}, None),
    ({"sub": ""}, None),
    ({"sub": None}, None),
    ({"sub": ["ada"]}, None),
    ({"sub": "a\nb"}, None),
    ({}, sign_none),
    ({}, sign_by_secret),
    ({}, sign_by_other),
    ({}, lambda _: "rubbish"),
    ({}, lambda _: 7),
    ({}, lambda _: {"a": 1}),
)


def test_token_that_is_not_good_lets_nobody_in(
    staff: Staff, rogue: Rogue, engine: sa.Engine
):
    """Whatever is wrong with it; neither page nor log has any of it."""
    browser = staff(rogue.issuer)
    for number, (claims, token) in enumerate(BAD_TOKENS):
        rogue.claims, rogue.token = claims, token
        answer = enter_rogue(browser, rogue)

        assert (403, number) == (answer.status_code, number)
        assert "sent a token that is not good" in answer.text, claims
        demand_nobody(browser, engine)


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("path", "sent", "status"),
    [
        ("/token", reply(400, b'{"error": "invalid_grant"}'), 403),
        ("/token", reply(401, b'{"error": "<script>"}'), 403),
        ("/token", reply(500), 503),
        ("/token", reply(302), 503),
        ("/token", b"<html>", 503),
        ("/token", b"\xff", 503),
        ("/token", DEEP, 503),
        ("/token", b" " * (2 << 20), 503),
        ("/token", b"{}", 403),
        ("/keys", reply(404), 503),
        ("/keys", b'{"keys": 7}', 403),
        ("/keys", b'{"keys": [7, {"kty": "RSA"}, {"kty": "new"}]}', 403),
        ("/keys", b'{"keys": [{"kty": "RSA", "n": "!", "e": "%%"}]}', 403),
        ("/keys", DEEP, 503),
    ],
)
def test_rubbish_lets_nobody_in(
    staff: Staff, rogue: Rogue, engine: sa.Engine, path: str, sent: Any, status: int
):
    """And is told on a page that says who is to blame."""
    rogue.answers[path] = sent
    browser = staff(rogue.issuer)
    answer = enter_rogue(browser, rogue)

    assert status == answer.status_code
    assert urlsplit(rogue.issuer).netloc in answer.text
    assert "<script>" not in answer.text
    demand_nobody(browser, engine)


@pytest.mark.parametrize(
    "sent",
    [
        reply(404),
        b"<html>",
        b"{}",
        DEEP,
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "ftp://x"},
        {"token_endpoint": "http://ada:hunter2@127.0.0.1:1/token"},
        {"token_endpoint": "http://[hunter2/token"},
        {"jwks_uri": ["https://x"]},
    ],
)
def test_provider_that_is_another_is_not_asked(
    staff: Staff, rogue: Rogue, engine: sa.Engine, sent: Any
):
    """Nor one that does not say where; keys sign in all the same."""
    changed = rogue.describe(**sent) if isinstance(sent, dict) else sent
    rogue.answers["/.well-known/openid-configuration"] = changed
    browser = staff(rogue.issuer)
    answer = browser.get("/sign-in/company")

    assert 503 == answer.status_code
    assert "which signs people in, cannot be asked: " in answer.text
    assert 'name="secret"' in answer.text
    demand_nobody(browser, engine)


def test_provider_that_is_away_is_told(staff: Staff):
    """By its name."""
    answer = staff("http://127.0.0.1:1").get("/sign-in/company")

    assert 503 == answer.status_code
    assert "127.0.0.1:1, which signs people in, cannot be asked" in answer.text


@pytest.mark.parametrize("sends", [b"", b"x"])
def test_provider_that_hangs_is_given_up(
    staff: Staff,
    rogue: Rogue,
    engine: sa.Engine,
    monkeypatch: pytest.MonkeyPatch,
    sends: bytes,
):
    """Also if it sends a byte now and then."""
    browser, over = staff(rogue.issuer), threading.Event()
    address = leave(browser)
    monkeypatch.setattr(identity_provider, "TIMEOUT", timedelta(seconds=0.3))

    def hang(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not over.wait(0.05):
            try:
                handler.wfile.write(sends)
            except OSError:
                return

    rogue.answers["/token"] = hang
    answer = browser.get(rogue.sign_in(address))
    over.set()

    assert 503 == answer.status_code
    assert "which signs people in, cannot be asked: " in answer.text
    demand_nobody(browser, engine)


def test_answer_counts_once_and_in_its_browser(
    staff: Staff, rogue: Rogue, engine: sa.Engine
):
    """Even if the provider takes the code again."""
    browser, other = staff(rogue.issuer), staff(rogue.issuer)
    address = rogue.sign_in(leave(browser))
    pending = browser.cookies["minutehand-pending"]
    elsewhere = other.get(address)
    first, again = browser.get(address), browser.get(address)
    browser.cookies.set("minutehand-pending", pending)
    replayed = browser.get(address)

    assert [403, 303, 403, 403] == [
        each.status_code for each in (elsewhere, first, again, replayed)
    ]
    for each in (elsewhere, again):
        assert "was not begun in this browser" in each.text
    assert "This sign-in is over." in replayed.text
    assert ["session"] == find_sessions(engine)


#: What a browser is made to send in the place of the provider's answer.
CHANGES: tuple[Callable[[dict[str, str]], dict[str, str]], ...] = (
    lambda query: query | {"state": "x"},
    lambda query: query | {"state": "\udcff"},
    lambda query: {"code": query["code"]},
    lambda query: {"state": query["state"]},
    lambda query: query | {"code": ""},
    lambda query: query | {"iss": "https://evil.example"},
    lambda query: {"state": query["state"], "error": "<script>"},
)


def test_answer_that_is_another_lets_nobody_in(
    staff: Staff, rogue: Rogue, engine: sa.Engine
):
    """And the provider is not asked."""
    browser = staff(rogue.issuer)
    for number, change in enumerate(CHANGES):
        address = urlsplit(rogue.sign_in(leave(browser)))
        query = {name: each[0] for name, each in parse_qs(address.query).items()}
        changed = {
            name: value.encode(errors="surrogateescape")
            for name, value in change(query).items()
        }
        answer = browser.get(address.path, params=changed)

        assert (403, number) == (answer.status_code, number)
        assert "<script>" not in answer.text
        assert [] == rogue.asked
        demand_nobody(browser, engine)


def test_person_who_does_not_want_to_is_told(
    staff: Staff, provider: RealProvider, engine: sa.Engine
):
    """What the provider says is not repeated: anybody can write an address."""
    browser = staff(provider.issuer)
    address = provider.deny(leave(browser))
    state = parse_qs(urlsplit(leave(browser)).query)["state"][0]
    answer = browser.get(f"{address}&state={state}&error_description=Call+me")

    assert 403 == answer.status_code
    assert "did not sign you in: access was denied." in answer.text
    assert "Call me" not in answer.text
    demand_nobody(browser, engine)


def test_whoever_signed_in_stays_here(staff: Staff, rogue: Rogue):
    """Also if the cookie says otherwise."""
    browser = staff(rogue.issuer)
    address = rogue.sign_in(leave(browser, "//evil.example"))

    assert "/" == browser.get(address).headers["location"]


def test_logs_have_no_secret(
    staff: Staff, rogue: Rogue, capfd: pytest.CaptureFixture[str]
):
    """Neither of those who came in, nor of those who did not."""
    browser = staff(rogue.issuer)
    tokens = []
    for sub in ("ada-1", "a\nb"):
        rogue.claims = {"sub": sub}
        refused = enter_rogue(browser, rogue)
        tokens.append(rogue.make_token())
    told = "".join(capfd.readouterr())

    assert "the+code" not in refused.text
    assert "web_signed_in" in told
    assert "web_sign_in_refused" in told
    for secret in (SECRET, "the code", "the+code", "the access token", "mhp_", "mhs_"):
        assert secret not in told
    assert not any(token.split(".")[0] in told for token in tokens)


def test_signing_out_offers_the_provider(
    staff: Staff, provider: RealProvider, engine: sa.Engine
):
    """Ours ends in any case."""
    provider.add("ada-1", groups=["ops"])
    browser = staff(provider.issuer)
    enter(browser, provider, "ada-1")
    left = browser.post("/sign-out")
    page = browser.get(left.headers["location"])
    away = browser.get("/sign-in/company/out")

    assert "/sign-in?left=" == left.headers["location"]
    assert 'href="/sign-in/company/out"' in page.text
    assert 303 == away.status_code
    assert away.headers["location"].startswith(f"{provider.issuer}/oauth2/end_session?")
    assert (
        "post_logout_redirect_uri=http%3A%2F%2Ftestserver%2Fsign-in"
        in (away.headers["location"])
    )
    demand_nobody(browser, engine)


def test_provider_without_a_place_to_sign_out_is_not_offered(
    staff: Staff, rogue: Rogue
):
    """As soon as that is known."""
    browser = staff(rogue.issuer)
    enter_rogue(browser, rogue)
    page = browser.get(browser.post("/sign-out").headers["location"])

    assert "/sign-in/company/out" not in page.text
    assert 404 == browser.get("/sign-in/company/out").status_code


def test_nobody_tries_for_long(staff: Staff):
    """Failed attempts are counted as those with keys are."""
    browser = staff("http://127.0.0.1:1", at_once=2)
    answers = [browser.get("/sign-in/company/back") for _time in range(3)]

    assert [403, 403, 429] == [answer.status_code for answer in answers]


def test_without_a_company_there_is_none(browser: TestClient):
    """Nothing is offered."""
    assert "/sign-in/company" not in browser.get("/sign-in?left=").text
    for path in ("", "/back", "/out"):
        assert 404 == browser.get(f"/sign-in/company{path}").status_code
