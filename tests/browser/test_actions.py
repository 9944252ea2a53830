"""Scheduled actions, as people see, run and pause them."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.looking import Looker, check_axe, leaving
from tests.seeded.sites import Site

NIGHTLY = "/actions/nightly-warehouse-load"


def test_the_list_is_filtered_and_chosen_with_keys(looker: Looker, site: Site):
    """Down with j, chosen with x, and p asks before they are paused."""
    page = looker.open(site, "/actions?app=harbour-logistics&text=load")
    expect(page.locator("h1")).to_contain_text("failed last time")
    expect(page.locator("#list")).to_contain_text("Nightly warehouse load")
    page.get_by_label("Trouble").select_option("failed")
    with leaving(page):
        page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("trouble=failed"))

    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("input[name=uid]:checked")).to_have_count(1)
    with leaving(page):
        page.keyboard.press("p")
    expect(page.locator("h1")).to_have_text("Pause 1 action?")
    check_axe(page)
    page.get_by_role("link", name="Leave as it is").click()
    expect(page).to_have_url(re.compile("trouble=failed"))


def test_an_action_tells_what_it_does(looker: Looker, site: Site):
    """Its three zones, clock changes, pictures and recipients; and why, when asked."""
    page = looker.open(site, NIGHTLY)
    for text in ("02:30 comes twice", "Europe/London, ", "get its mails now"):
        expect(page.locator("main")).to_contain_text(text)
    assert page.get_by_role("img", name=re.compile("^1[34] weeks?:|^13 weeks:")).count()

    page.get_by_role("textbox", name="Instant").fill("2026-10-25T02:31")
    with leaving(page):
        page.get_by_role("button", name="Ask why").click()
    expect(page.locator("#why")).to_contain_text("Not due.")
    page.locator("#days-table summary").click()
    expect(page.locator("#days-table")).to_contain_text("succeeded")
    check_axe(page)


def test_an_action_is_paused_in_place_and_undone(looker: Looker, own_site: Site):
    """The key opens the question; what is wrong with the end is said beside it."""
    looker.watch.expected.add(422)
    page = looker.open(own_site, NIGHTLY)
    page.keyboard.press("p")
    dialog = page.locator("dialog")
    dialog.get_by_label("Why").fill("quarter-end freeze")
    dialog.get_by_label("Until").fill("someday")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator("#wrong-until")).to_contain_text("someday")
    expect(page.get_by_label("Why")).to_have_value("quarter-end freeze")
    page.get_by_label("Until").fill("2035-01-31T09:00")
    page.get_by_role("button", name="Pause").click()

    expect(page.locator("main")).to_contain_text("This action is paused.")
    page.locator("#told").get_by_role("button", name="Undo").click()
    expect(page.locator("#told")).to_contain_text("is resumed")


def test_it_runs_and_backfills(looker: Looker, own_site: Site):
    """First what it would do, then the list, and how far it is."""
    looker.watch.expected.add(404)
    page = looker.open(own_site, f"{NIGHTLY}/run")
    page.get_by_label("publish").uncheck()
    page.get_by_role("button", name="Only say what it would do").click()
    expect(page.locator("#foreseen")).to_contain_text("leave out publish")

    page.goto(f"{own_site.url}{NIGHTLY}/backfill?from=2026-10-18T00:00&which=all")
    expect(page.locator("h1")).to_contain_text("would run")
    page.get_by_role("button", name=re.compile("^Run ")).click()
    expect(page.locator("h1")).to_contain_text("Running: 0 of")
    page.get_by_role("link", name="Cancel it…").click()
    page.get_by_role("button", name="Cancel the backfill").click()
    expect(page.locator("#told")).to_contain_text("canceled")
