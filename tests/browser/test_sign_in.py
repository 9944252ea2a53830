"""Somebody signs in, with and without script, and signs out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from models.role import Role
from serving.access.callers import Caller
from serving.access.manage_keys import create_key
from serving.access.sign_ins import make_link
from tests.browser.looking import (
    NARROW,
    WIDE,
    Looker,
    check_axe,
    check_width,
    walk_with_keyboard,
)
from tests.database import write_by
from tests.identity_providers import CLIENT, SECRET, run_provider
from tests.seeded.sites import Site, make_empty_home, run_site


def test_key_signs_in_and_leads_back(looker: Looker, site: Site):
    """Who asked for a page without being signed in comes to it afterwards."""
    key = write_by(site.engine, create_key, app=None, role=Role.VIEWER).text
    page = looker.open(site, "/keys?from=before", role=None)
    page.get_by_label("key").fill(key)
    page.get_by_role("button", name="Sign in").click()

    expect(page).to_have_url(f"{site.url}/keys?from=before")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{site.url}/sign-in")


@pytest.mark.parametrize("role", [None, Role.VIEWER])
def test_link_signs_in(looker: Looker, site: Site, role: Role | None):
    """It asks once more, and its secret is in no request but that."""
    link = write_by(site.engine, make_link, Caller(None, "ada", Role.ADMIN, None))
    page = looker.open(site, "/sign-in", role=role)
    told: list[str] = []
    page.on("request", lambda each: told.append(f"{each.url} {each.headers}"))
    page.goto("about:blank")
    page.goto(f"{site.url}/sign-in#{link}")

    expect(page).to_have_url(f"{site.url}/sign-in")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{site.url}/")
    assert told
    assert not [each for each in told if link in each]


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Site]]:
    """Give a real provider's host, and an installation of which it signs people in."""
    folder = tmp_path_factory.mktemp("company")
    with run_provider(folder) as provider:
        provider.add("ada-1", email="ada@example.com", groups=["a", "b"])
        more = {
            "MINUTEHAND_OIDC_ISSUER": provider.issuer,
            "MINUTEHAND_OIDC_CLIENT_ID": CLIENT,
            "MINUTEHAND_OIDC_CLIENT_SECRET": SECRET,
            "MINUTEHAND_OIDC_GROUPS": '{"a": {"*": "viewer"}, "b": {"shop": "admin"}}',
        }
        home = make_empty_home(folder / "home")
        with run_site(home, lambda: datetime.now(UTC), more) as site:
            yield urlsplit(provider.issuer).netloc, site


@pytest.mark.parametrize("script", [True, False])
def test_company_signs_in_and_out(
    looker: Looker, company: tuple[str, Site], *, script: bool
):
    """There and back, through a real provider; then out of both."""
    # Its page asks elsewhere for how it looks.
    looker.watch.provoked = ("jsdelivr", "Failed to load resource: net::ERR_")
    host, site = company
    page = looker.open(site, "/keys?a=b", role=None, script=script)
    check_width(page)
    page.get_by_role("link", name=f"Sign in with {host}").click()
    page.get_by_placeholder("sub").fill("ada-1")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("heading", name="Which small app?")).to_be_visible()
    if script:
        check_axe(page)
    page.get_by_role("button", name="All small apps, as viewer").click()
    expect(page).to_have_url(f"{site.url}/keys?a=b")
    page.goto(f"{site.url}/sign-in")
    expect(page.get_by_text("ada@example.com (ada-1)")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out here.")).to_be_visible()
    if script:
        check_axe(page)
    page.get_by_role("link", name=f"Sign out of {host}").click()
    expect(page.get_by_role("heading", name="End Session")).to_be_visible()
    page.get_by_role("button", name="End session").click()
    expect(page).to_have_url(f"{site.url}/sign-in")


@pytest.mark.look
@pytest.mark.parametrize(("width", "theme"), [(WIDE, "light"), (NARROW, "dark")])
def test_page_is_for_everybody(looker: Looker, site: Site, width: int, theme: str):
    """Nothing is found by axe or cut off, and the keyboard reaches everything."""
    looker.watch.expected = {403}
    page = looker.open(site, "/sign-in", role=None, width=width, theme=theme)
    check_axe(page)
    check_width(page)

    assert [] == walk_with_keyboard(page)
    page.get_by_label("key").fill("mh_typo")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("it has a typo")).to_be_visible()
    check_axe(page)
    check_width(page)
