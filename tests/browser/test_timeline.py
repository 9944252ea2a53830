"""The timeline in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.looking import Looker, leaving
from tests.seeded.sites import Site


def test_a_stretch_is_looked_through(looker: Looker, site: Site):
    """Closer, earlier, of one app and queue."""
    page = looker.open(site, "/timeline")
    lanes = page.locator("#lanes li")
    expect(page.get_by_role("heading", level=1)).to_contain_text("overlap")
    expect(lanes).to_have_count(30)
    with leaving(page):
        page.get_by_role("link", name="24 hours").click()
    expect(page).to_have_url(f"{site.url}/timeline?span=24h")
    page.get_by_label("App", exact=True).select_option("atlas-retail")
    page.get_by_label("Queue", exact=True).select_option("heavy")
    with leaving(page):
        page.get_by_role("button", name="Filter").click()
    expect(lanes.first).to_contain_text("atlas-retail")
    with leaving(page):
        page.get_by_role("link", name="Earlier").click()
    expect(page).to_have_url(re.compile("from=2026-10-18T22%3A02%3A00Z"))
    expect(lanes.first).to_contain_text("atlas-retail")
    with leaving(page):
        page.get_by_role("link", name="Now").last.click()
    last = lanes.first.locator("a").last
    expect(last).to_have_attribute("href", re.compile(r"^/operations\?action="))


def test_keys_move_and_zoom(looker: Looker, site: Site):
    """As the links do."""
    page = looker.open(site, "/timeline")
    for key, query in (
        ("-", "span=24h"),
        ("+", "span=6h"),
        ("]", "span=6h&from=2026-10-20T01%3A02%3A00Z"),
        ("+", "span=1h&from=2026-10-20T03%3A32%3A00Z"),
        ("t", "span=1h"),
    ):
        with leaving(page):
            page.keyboard.press(key)
        expect(page).to_have_url(f"{site.url}/timeline?{query}")
    page.keyboard.press("j")
    expect(page.locator("#lane-1 a").first).to_be_focused()
