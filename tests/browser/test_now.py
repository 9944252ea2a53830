"""Now, the search and the first minute, as people see them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import NARROW, WIDE, Looker, check_width, walk_with_keyboard
from tests.scheduling import add_app, post
from tests.seeded.sites import Site


@pytest.mark.look
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_page_tells_what_is_wrong(looker: Looker, site: Site, width: int):
    """The verdict is the largest."""
    page = looker.open(site, "/", width=width)

    expect(page.locator("h1")).to_contain_text("no worker takes quick")
    for name in ("failures", "not-run", "under-way", "next"):
        expect(page.locator(f"#{name} [data-row]")).not_to_have_count(0)
    sizes = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.childNodes.length &&"
        " [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))"
        ".map(e => [parseFloat(getComputedStyle(e).fontSize), e.className])"
    )
    assert "large" in max(sizes)[1]


def test_page_that_hears_nothing_asks(looker: Looker, site: Site):
    """While the database is away, streams stay open and tell nothing."""
    looker.watch.expected = {503}
    page = looker.enter(site).new_page()
    page.clock.install()
    with page.expect_response(lambda each: "/api/v1/stream" in each.url):
        page.goto(f"{site.url}/")
    page.route(f"{site.url}/", lambda route: route.fulfill(status=503))

    page.clock.run_for(100_000)
    expect(page.locator("#not-live")).to_contain_text("has not followed since")
    page.unroute(f"{site.url}/")
    page.clock.run_for(3000)
    expect(page.locator("#not-live")).to_be_hidden()


def test_everything_is_paused_in_place_and_resumed(looker: Looker, own_site: Site):
    """The key opens the question; undo takes it back."""
    page = looker.open(own_site, "/")
    page.keyboard.press("p")
    dialog = page.locator("dialog")
    expect(dialog.get_by_role("heading")).to_contain_text("Pause everything")
    dialog.get_by_label("Why").fill("a release")
    dialog.get_by_role("button", name="Pause everything").click()

    expect(page.locator("#told")).to_contain_text("Paused everything")
    expect(page.locator("#alarms")).to_contain_text("a release")
    page.locator("#told").get_by_role("button", name="Undo").click()
    expect(page.locator("#told")).to_contain_text("Resumed")


@pytest.mark.look
def test_keyboard_reaches_everything(looker: Looker, site: Site):
    """Also the picture, which scrolls in its box; and the search by its key."""
    page = looker.open(site, "/", width=NARROW)

    assert [] == walk_with_keyboard(page)

    page = looker.open(site, "/")
    page.keyboard.press("/")
    page.keyboard.type("kestrel-air")
    page.keyboard.press("Enter")
    page.wait_for_url("**/apps/kestrel-air")


@pytest.mark.look
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_what_comes_in_days_fits(looker: Looker, empty_site: Site, width: int):
    """With its day, its offset and how far away it is, in the zone of its rule."""
    when = {"cron_rule": "30 23 28 * *", "timezone": "America/St_Johns"}
    add_app(empty_site.engine)
    post(empty_site.engine, name="maintenance", when=when)
    page = looker.open(empty_site, "/", width=width)

    expect(page.locator("#next [data-row]")).not_to_have_count(0)
    check_width(page)
