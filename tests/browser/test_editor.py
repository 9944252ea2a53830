"""Somebody writes an action, with and without script, and looks at its revisions."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa
from playwright.sync_api import Route, expect

from models.database.engine import reading
from models.database.tables import scheduled_actions
from tests.browser.looking import (
    NARROW,
    THEMES,
    WIDE,
    Looker,
    check_axe,
    check_width,
    leaving,
    walk_with_keyboard,
)
from tests.seeded.sites import Site
from tests.servers import wait_until

PROBLEMS = """{
    "name": "x",
    "operations": {"send_execsums": true},
    "when": {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
    "overlap": "skp"
}"""

#: After so long without a key, what is typed is checked.
TYPED_MS = 300


def find_action(site: Site) -> str:
    """Return the uid of an action that is driven by a cron rule."""
    kept = scheduled_actions.c
    with reading(site.engine) as connection:
        found: str = connection.scalars(
            sa.select(kept.uid)
            .where(kept.timing.like("%cron_rule%"), kept.deleted_at.is_(None))
            .where(kept.app != "minutehand")
            .order_by(kept.uid)
            .limit(1)
        ).one()
    return found


def test_text_and_form_follow_each_other(looker: Looker, site: Site):
    """
    While one types: the sentence, the problems at their lines, and the other of both.
    """
    page = looker.open(site, "/actions/new?starter=nightly")
    text, sentence = page.locator("#document"), page.locator("#preview .large")
    expect(sentence).to_contain_text("Every day at 02:30")

    page.get_by_label("Time", exact=True).fill("04:15")
    expect(sentence).to_contain_text("04:15")
    expect(text).to_have_value(re.compile(re.escape('"15 4 * * *"')))

    text.fill(PROBLEMS)
    # Not by its words alone: ten seconds after the last one, it is announced as well.
    expect(page.locator("#problems-h")).to_contain_text("2 problems. Nothing is saved")
    expect(sentence).to_have_text("Mondays at 07:00, Europe/Paris")
    expect(page.get_by_label("Name", exact=True)).to_have_value("x")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    expect(page.locator("#gutter .bad")).to_have_count(2)
    page.keyboard.press("F8")
    assert page.evaluate("document.activeElement.selectionStart") == PROBLEMS.index(
        '"send_execsums"'
    )
    check_axe(page)

    with leaving(page):
        page.get_by_role("button", name="Write “send_execsum”").click()
    with leaving(page):
        page.get_by_role("button", name="Write “skip”").click()
    expect(page.get_by_text("No problem")).to_be_visible()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_enabled()


#: Answers are put into the page as soon as they are parsed.
_COUNT_PARSED = """
() => {
  const parse = DOMParser.prototype.parseFromString;
  window.parsed = 0;
  DOMParser.prototype.parseFromString = function (...given) {
    window.parsed += 1;
    return parse.apply(this, given);
  };
}
"""


def test_late_answer_takes_nothing_away(looker: Looker, site: Site):
    """
    What is written while a check is under way is newer than what that answers to.
    """
    page = looker.open(site, "/actions/new?starter=nightly")
    page.clock.install(time=0)
    page.clock.pause_at(1000)  # in milliseconds; from now on time stands still
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile("/actions/new"), hold, times=1)
    page.evaluate(_COUNT_PARSED)
    text = page.locator("#document")

    page.get_by_label("Time", exact=True).fill("04:15")
    with page.expect_request(lambda request: request.method == "POST"):
        page.clock.run_for(TYPED_MS)
    text.fill(PROBLEMS)
    held[0].continue_()
    wait_until(lambda: page.evaluate("parsed") == 1, what="the first answer")

    expect(text).to_have_value(PROBLEMS)
    page.clock.run_for(TYPED_MS)
    expect(page.locator("#problems-h")).to_contain_text("2 problems.")
    expect(text).to_have_value(PROBLEMS)


def test_first_action_takes_a_minute(looker: Looker, empty_site: Site):
    """
    From an installation that has nothing: choose, and save by key.
    """
    looker.watch.expected = {404}  # while there is no page of an action
    page = looker.open(empty_site, "/actions/new")
    with leaving(page):
        page.get_by_role("link", name="Weekdays at seven").click()
    expect(page.locator("#preview .large")).to_contain_text("Monday to Friday")
    page.locator("#document").press("Control+s")

    expect(page).not_to_have_url(f"{empty_site.url}/actions/new?starter=weekdays")
    with reading(empty_site.engine) as connection:
        kept = scheduled_actions.c
        query = sa.select(kept.name).where(kept.app == "main")
        assert ["summary of the day before"] == list(connection.scalars(query))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_pages_are_for_everybody(looker: Looker, site: Site, width: int, theme: str):
    """
    Empty, with a stored action, its revisions and the question before one is restored.
    """
    place = f"/actions/{find_action(site)}"
    for path in ("/actions/new", f"{place}/edit", f"{place}/revisions"):
        page = looker.open(site, path, width=width, theme=theme)
        check_axe(page)
        check_width(page)
        page.close()


def test_everything_is_reached_with_the_keyboard(looker: Looker, site: Site):
    """
    And the text field lets go of the focus.
    """
    page = looker.open(site, f"/actions/{find_action(site)}/edit")

    assert [] == [*walk_with_keyboard(page)]


def test_without_script_a_button_checks(looker: Looker, own_site: Site):
    """
    Problems, a proposal, the form written as JSON, a revision saved and compared.
    """
    looker.watch.expected = {404, 422}  # 404: while there is no page of an action
    uid = find_action(own_site)
    page = looker.open(own_site, f"/actions/{uid}/edit", script=False)
    before = page.locator("#document").input_value()

    page.locator("#document").fill(before.replace('"name"', '"names"'))
    with leaving(page):
        page.get_by_role("button", name="Save as a new revision").click()
    expect(page.get_by_text("Nothing is saved until").first).to_be_visible()
    with leaving(page):
        page.get_by_role("button", name="Write “name”").click()
    expect(page.locator("#document")).to_have_value(before)

    page.get_by_label("Name", exact=True).fill("another name")
    with leaving(page):
        page.get_by_role("button", name="Write it as JSON").click()
    expect(page.locator("#document")).to_have_value(
        re.compile('"name": "another name"')
    )
    page.get_by_role("button", name="Save as a new revision").click()
    page.wait_for_url(f"{own_site.url}/actions/{uid}")

    page.goto(f"{own_site.url}/actions/{uid}/revisions")
    with leaving(page):
        page.get_by_role("button", name="Compare the two").click()
    expect(page.locator(".diff ins")).to_have_text('"another name"')
    with leaving(page):
        page.get_by_role("link", name="Restore").first.click()
    page.get_by_role("button", name="Restore as a new revision").click()
    page.wait_for_url(f"{own_site.url}/actions/{uid}")
    page.goto(f"{own_site.url}/actions/{uid}/edit")
    expect(page.locator("#document")).to_have_value(before)
