"""Keys lead through pages as their links do."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import Looker, leaving
from tests.browser.test_content_pages import Named
from tests.seeded.sites import Site


def press(page: Page, site: Site, places: tuple[tuple[str, str], ...]) -> None:
    """Press each key, and demand to come to the path that stands beside it."""
    for key, path in places:
        with leaving(page):
            page.keyboard.press(key)
        expect(page).to_have_url(f"{site.url}{path}")


@pytest.mark.look
def test_keys_lead_through_the_weeks(looker: Looker, site: Site):
    """And Enter opens the hour that has the focus."""
    page = looker.open(site, "/calendar")
    weeks = (("[", "?week=2026-W42"), ("t", ""), ("]", "?week=2026-W44"))
    press(page, site, tuple((key, f"/calendar{week}") for key, week in weeks))
    page.locator(".week a").first.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/calendar/planned\\?from="))


@pytest.mark.look
def test_keys_move_and_zoom(looker: Looker, site: Site):
    """Along the timeline, and from lane to lane."""
    page = looker.open(site, "/timeline")
    stretches = (
        ("-", "span=24h"),
        ("+", "span=6h"),
        ("]", "span=6h&from=2026-10-20T01%3A02%3A00Z"),
        ("+", "span=1h&from=2026-10-20T03%3A32%3A00Z"),
        ("t", "span=1h"),
    )
    press(page, site, tuple((key, f"/timeline?{query}") for key, query in stretches))
    page.keyboard.press("j")
    expect(page.locator("#lane-1 a").first).to_be_focused()


@pytest.mark.look
def test_keys_open_what_asks(looker: Looker, site: Site):
    """And it goes by a key."""
    page = looker.open(site, Named(site).app)
    page.keyboard.press("p")
    expect(page.get_by_role("dialog")).to_contain_text("Pause")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
