"""Scheduled actions, as people see, run and pause them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import NARROW, Looker, check_axe, leaving
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


@pytest.mark.look
def test_the_list_is_sorted_on_a_phone(looker: Looker, site: Site):
    """Though the rest of its head is only for those who listen."""
    page = looker.open(site, "/actions", width=NARROW)
    page.get_by_role("link", name="Next", exact=True).click()

    expect(page).to_have_url(re.compile("sort=next"))


def test_an_action_is_paused_in_place_and_undone(looker: Looker, own_site: Site):
    """The key opens the question; what is wrong with the end is said beside it."""
    looker.watch.expected.add(422)
    page = looker.open(own_site, NIGHTLY)
    page.keyboard.press("p")
    dialog = page.locator("dialog")
    dialog.get_by_label("Why").fill("quarter-end freeze")
    dialog.get_by_label("Until").fill("1900-01-01T00:00")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator("#wrong-until")).to_contain_text("1900-01-01")
    expect(page.get_by_label("Why")).to_have_value("quarter-end freeze")
    page.get_by_label("Until").fill("2035-01-31T09:00")
    page.get_by_role("button", name="Pause").click()

    expect(page.locator("main")).to_contain_text("This action is paused.")
    page.locator("#told").get_by_role("button", name="Undo").click()
    expect(page.locator("#told")).to_contain_text("is resumed")
