"""Workers and settings in a browser: looked at, and used."""

from __future__ import annotations

from playwright.sync_api import expect

from models.role import Role
from tests.browser.looking import Looker, leaving
from tests.seeded.sites import Site


def test_queue_is_paused_in_place(looker: Looker, own_site: Site):
    """
    The question opens in place; a wrong end is told beside its field; it is undone.
    """
    looker.watch.expected = {422}
    page = looker.open(own_site, "/workers", role=Role.OPERATOR)
    page.get_by_role("link", name="Pause quick…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Note").fill("the mail server moves")
    dialog.get_by_label("Until").fill("soon")
    dialog.get_by_role("button", name="Pause quick").click()
    expect(page.get_by_label("Note")).to_have_value("the mail server moves")
    page.get_by_label("Until").fill("2099-01-01T00:00:00Z")
    page.get_by_role("button", name="Pause quick").click()

    expect(page.locator("#told")).to_contain_text("Paused quick")
    expect(page.get_by_text("the mail server moves")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#told")).to_contain_text("Resumed quick")


def test_key_is_made_without_script(looker: Looker, own_site: Site):
    """Its text is on the page that follows, and on no other."""
    page = looker.open(own_site, "/settings", script=False)
    with leaving(page):
        page.get_by_role("link", name="Make a key…").first.click()
    page.get_by_label("Name").fill("wall of the office")
    page.locator("select[name=app]").select_option("*")
    with leaving(page):
        page.get_by_role("button", name="Make it").click()

    text = page.locator("#key").inner_text()
    assert text.startswith("mh_")
    with leaving(page):
        page.get_by_role("link", name="To the keys").click()
    expect(page.get_by_text("wall of the office")).to_be_visible()
    assert text not in page.content()
