"""The calendar and what is planned, in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.looking import Looker, leaving
from tests.seeded.sites import Site


def test_a_week_is_looked_through(looker: Looker, site: Site):
    """Earlier and later, of one app, down to the actions of an hour."""
    page = looker.open(site, "/calendar")
    expect(page.get_by_role("heading", level=1)).to_contain_text(
        "19 to 25 October. The clocks go back on Sunday."
    )
    expect(page.get_by_text("25 hours")).to_be_visible()
    with leaving(page):
        page.get_by_role("link", name="Later").click()
    expect(page).to_have_url(f"{site.url}/calendar?week=2026-W44")
    expect(page.get_by_role("heading", level=1)).to_contain_text("26 October to 1")
    page.get_by_label("App", exact=True).select_option("atlas-retail")
    with leaving(page):
        page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(
        f"{site.url}/calendar?week=2026-W44&app=atlas-retail&queue="
    )
    with leaving(page):
        page.get_by_role("link", name="This week").click()
    href = page.get_by_role("link", name="Subscribe (.ics)").get_attribute("href")
    answer = page.context.request.get(f"{site.url}{href}")
    assert answer.text().startswith("BEGIN:VCALENDAR\r\n")
    with leaving(page):
        page.locator('.week a[href^="/calendar/planned"]').first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("planned")
    expect(page.locator("tbody")).to_contain_text("atlas-retail")
    page.get_by_role("link", name="Calendar").last.click()
    expect(page.get_by_role("link", name="Subscribe (.ics)")).to_be_visible()


def test_keys_lead_through_the_weeks(looker: Looker, site: Site):
    """And Enter opens the hour that has the focus."""
    page = looker.open(site, "/calendar")
    for key, path in (
        ("[", "/calendar?week=2026-W42"),
        ("t", "/calendar"),
        ("]", "/calendar?week=2026-W44"),
    ):
        with leaving(page):
            page.keyboard.press(key)
        expect(page).to_have_url(f"{site.url}{path}")
    page.locator(".week a").first.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/calendar/planned\\?from="))
