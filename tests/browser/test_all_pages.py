"""Every page that the frame leads to, as different people look at it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, expect

from models.database.tables import scheduled_actions, small_apps
from models.operation_state import OperationState
from tests.browser.looking import (
    LARGEST_PAGE,
    LEAST,
    NARROW,
    WIDE,
    Looker,
    Watch,
    check_axe,
    check_width,
    walk_with_keyboard,
)
from tests.browser.test_content_pages import Named
from tests.browser.test_operations import find
from tests.database import execute
from tests.scheduling import add_app, post
from tests.seeded.sites import Site
from web.rendering import SECTIONS
from web.routes import ROUTERS

#: What the paths of pages name, in the seeded installation; the longest uid of an app.
_NAMED = {
    "uid": "nightly-warehouse-load",
    "app": "harbour-logistics",
    "part": "domains",
    "long": "w" * 128,
}

#: Pages below those of the navigation that people look at for longer.
_BELOW = (
    "/actions/new",
    "/actions/{uid}",
    "/actions/{uid}/edit",
    "/actions/{uid}/delete",
    "/apps/_new",
    "/apps/{app}",
    "/apps/{app}/parts/{part}",
    "/settings/invite",
    "/settings/keys/new",
    "/keys",
)

#: Pages with a query, or about something that is looked for, with most to press.
_BUSY = (
    *("{domain}", "{event}", "/operations?state=failed", "{success}"),
    "/calendar/planned?from=2026-10-20T03:00:00Z&until=2026-10-20T04:00:00Z",
)

#: And those on which there is little.
_SMALL = (
    *("/actions?trouble=any", "/actions/new?app=delta-energy"),
    *(f"/{each}?app={{long}}" for each in ("calendar", "timeline", "actions/new")),
    *("/apps/{long}", "/apps/{long}/users", "/apps/{long}/pause", "/actions/last"),
    "/bulk/new?change=pause&all=1",
    *("/actions/{uid}/revisions", "/actions/{uid}/run", "/actions/{uid}/recipients"),
    *("/actions/{uid}/backfill", "/apps/{app}/users", "/mails/test", "/mails/resend"),
    *("{mailing}", "{mail}", "/events/send", "{event}/replay", "/operations/{failed}"),
    *("/operations/{failed}/retry", "/bulk/new?change=retry&all=1"),
    *("/timeline?span=7d", "/workers/queues/quick/pause", "/settings/changes"),
    *("/settings/installation", "/guide", "/begin", "/search?q=WWW", "/pause"),
)

#: What is folded away can be too wide, too.
_OPEN_ALL = (
    "() => document.querySelectorAll('details').forEach((each) => each.open = true)"
)

_PATHS = {
    route.path
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and "GET" in (route.methods or ())
}

_SECTIONS = [each.path for each in SECTIONS if each.path in _PATHS]

_WALKED = (*_SECTIONS, *(each for each in _BELOW if each in _PATHS), *_BUSY)


def find_path(site: Site, page: str) -> str:
    """Return the path of a page, with the names of what is in *site*."""
    if set(re.findall("{([a-z]+)}", page)) <= _NAMED.keys():
        return page.format(**_NAMED)
    latest = site.find_latest(_NAMED["uid"], OperationState.SUCCEEDED)
    found = {**_NAMED, **vars(Named(site)), "failed": find(site, "failed")}
    return page.format(**found, success=f"/operations/{latest}")


@pytest.fixture(scope="module")
def site(site: Site) -> Site:
    """
    Give it with two hundred letters without a space for the name of each action and
    app, of which some stand in rules, too, for what is wrong with those in quarantine,
    and with an app of the longest uid.
    """
    app, name = _NAMED["long"], "X" + "W" * 199
    add_app(site.engine, app, ["W" * 100])
    post(site.engine, app, uid="first", name=name, operations={"publish": True})
    after = {"after_action": name}
    post(site.engine, app, uid="last", operations={"publish": True}, when=after)
    for kept in (scheduled_actions.c, small_apps.c):
        name_of_each = sa.func.substr("W" * 150 + kept.uid, 1, 200)
        others = sa.update(kept.uid.table).where(kept.uid != "first")
        execute(site.engine, others.values(name=name_of_each))
    reason = sa.update(scheduled_actions).values(quarantine_reason="W" * 200)
    execute(site.engine, reason.where(scheduled_actions.c.quarantined_at.is_not(None)))
    return site


@pytest.fixture(scope="module")
def windows(chromium: Browser) -> Iterator[Looker]:
    """Give windows for all pages: what they have loaded once, they need not again."""
    windows = Looker(chromium, Watch())
    yield windows
    windows.close()


@pytest.fixture
def looker(windows: Looker) -> Iterator[Looker]:
    """Give them to one test, in which nothing may go wrong in them."""
    windows.watch.faults.clear()
    yield windows
    windows.leave()

    assert [] == windows.watch.faults


@pytest.mark.look
@pytest.mark.parametrize("page", [*_WALKED, *_SMALL])
def test_page_is_for_everybody(looker: Looker, site: Site, page: str):
    """
    With our script, and dark and without it on a telephone, axe finds nothing, and
    nothing is cut off or large, also at 400 % and however long the names are. Where
    people look for longer, Tab alone comes to each control, and is seen there.
    """
    path = find_path(site, page)
    whole = looker.open(site, path)
    check_axe(whole)
    if page in _WALKED:
        assert [] == walk_with_keyboard(whole)
    whole.evaluate(_OPEN_ALL)
    for width in (WIDE, LEAST):
        whole.set_viewport_size({"width": width, "height": 800})
        check_width(whole)
    whole.close()

    bare = looker.open(site, path, width=NARROW, theme="dark", bare=True)
    check_width(bare)
    bare.evaluate(_OPEN_ALL)
    check_axe(bare)
    assert 1 == bare.locator("h1").count()
    assert len(bare.content().encode()) < LARGEST_PAGE


@pytest.mark.look
def test_empty_page_says_what_to_do(looker: Looker, empty_site: Site):
    """Also where there is nothing yet, each page is whole."""
    page = looker.open(empty_site, _SECTIONS[0])
    for path in _SECTIONS:
        page.set_viewport_size({"width": WIDE, "height": 800})
        page.goto(f"{empty_site.url}{path}")
        check_width(page)
        check_axe(page)
        assert 1 == page.locator("h1").count()
        page.set_viewport_size({"width": NARROW, "height": 800})
        check_width(page)


_ADD_ROWS = """
(colors) => {
  const list = document.querySelector("main").appendChild(document.createElement("ul"));
  for (const color of colors) {
    const row = list.appendChild(document.createElement("li"));
    row.textContent = `This row is ${color}.`;
    row.style.color = color;
    row.style.backgroundColor = "white";
  }
}
"""


@pytest.mark.look
def test_contrast_is_looked_at_wherever_it_differs(looker: Looker, site: Site):
    """Rows that are seen as those before them are passed over, and no others."""
    page = looker.open(site, "/keys")
    page.evaluate(_ADD_ROWS, ["black", "black", "black"])
    check_axe(page, only="color-contrast")
    page.evaluate(_ADD_ROWS, ["black", "black", "lightgray"])

    with pytest.raises(AssertionError, match="This row is lightgray"):
        check_axe(page, only="color-contrast")


@pytest.mark.look
@pytest.mark.parametrize(
    ("path", "box", "mark"),
    [("/", "#rail-box", ".t-now"), ("/calendar", "#week", ".h-now")],
)
def test_wide_pictures_open_at_now(
    looker: Looker, site: Site, path: str, box: str, mark: str
):
    """On a phone, too, where they are wider than the window."""
    page = looker.open(site, path, width=NARROW)
    edges = page.locator(f"{box} {mark}").first.bounding_box()
    room = page.locator(box).bounding_box()

    assert edges is not None
    assert room is not None
    assert room["x"] <= edges["x"] <= room["x"] + room["width"]
    assert 0 == page.evaluate("scrollY")


@pytest.mark.look
def test_back_leaves_the_question_and_not_the_page(looker: Looker, site: Site):
    """Whether by the key of the browser or by the button of the question."""
    page = looker.open(site, "/actions")
    place = f"{site.url}/actions/{_NAMED['uid']}"
    page.goto(place)
    dialog = page.locator("dialog[open]")
    for leave in (
        page.go_back,
        dialog.get_by_text("Leave as it is").click,
        lambda: page.keyboard.press("Escape"),
    ):
        page.get_by_role("link", name="Delete").click()
        dialog.wait_for()
        leave()
        expect(dialog).to_have_count(0)
        expect(page).to_have_url(place)
        # a step back that is under way would be all that the next one does
        page.wait_for_function("!history.state?.asking")
    page.go_back()
    expect(page).to_have_url(f"{site.url}/actions")


@pytest.mark.look
@pytest.mark.parametrize("way", ["two clicks", "two presses", "a press that rests"])
def test_question_is_asked_once_and_answered_by_none_in_haste(
    looker: Looker, site: Site, way: str
):
    """Who clicks or presses twice has not read it yet, and has agreed to nothing."""
    page = looker.open(site, f"/actions/{_NAMED['uid']}")
    link, dialog = page.get_by_role("link", name="Delete"), page.locator("dialog[open]")
    sent: list[str] = []
    page.on("request", lambda each: sent.append(each.method))

    if way == "two clicks":
        link.dblclick()
    else:
        link.press("Enter")
    if way == "two presses":
        page.keyboard.press("Enter")
    dialog.wait_for()
    if way == "a press that rests":
        page.keyboard.press("Enter")
    page.keyboard.press("Tab")

    expect(dialog.get_by_label("Why")).to_be_focused()
    expect(dialog).to_have_count(1)
    assert {"GET"} == {*sent}
