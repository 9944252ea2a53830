"""Somebody writes an action, with and without script, and looks at its revisions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import cycle

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, Route, expect

from models.database.tables import scheduled_actions
from tests.browser.looking import Looker, check_axe, leaving
from tests.database import fetch_rows
from tests.seeded.sites import Site
from tests.servers import wait_until

PROBLEMS = """{
    "name": "x",
    "operations": {"send_execsums": true},
    "when": {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
    "overlap": "skp"
}"""

#: Actions to begin with, of an app.
NIGHTLY = "/actions/new?app=delta-energy&starter=nightly"

#: After so long without a key, what is typed is checked.
TYPED_MS = 300

#: How long hands rest between two keys.
PAUSES_MS = (80, 450, 120, 900, 200)


def test_problems_are_told_while_one_types(looker: Looker, site: Site):
    """The sentence, the problems at their lines, and what was probably meant."""
    page = looker.open(site, NIGHTLY)
    text, sentence = page.locator("#document"), page.locator("#preview .large")
    expect(sentence).to_contain_text("Every day at 02:30")

    text.fill(PROBLEMS)
    # Not by its words alone: ten seconds after the last one, it is announced as well.
    expect(page.locator("#problems-h")).to_contain_text("2 problems. Nothing is saved")
    expect(sentence).to_have_text("Mondays at 07:00, Europe/Paris")
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
    expect(page.get_by_label("Name", exact=True)).to_have_value("x")


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


@pytest.mark.look
def test_late_answer_takes_nothing_away(looker: Looker, site: Site):
    """What is written while a check is under way is newer than what that answers to."""
    page = open_still(looker, site, NIGHTLY)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile("/actions/new"), hold, times=1)
    page.evaluate(_COUNT_PARSED)
    text = page.locator("#document")

    page.get_by_label("At", exact=True).fill("04:15")
    with page.expect_request(lambda request: request.method == "POST"):
        page.clock.run_for(TYPED_MS)
    text.fill(PROBLEMS)
    held[0].continue_()
    wait_until(lambda: page.evaluate("parsed") == 1, what="the first answer")

    expect(text).to_have_value(PROBLEMS)
    page.clock.run_for(TYPED_MS)
    expect(page.locator("#problems-h")).to_contain_text("2 problems.")
    expect(text).to_have_value(PROBLEMS)


def open_still(looker: Looker, site: Site, path: str) -> Page:
    """Return the page at *path*, for which time goes on only when it is told to."""
    page = looker.open(site, path)
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    return page


def type_like_hands(page: Page, keys: Sequence[str]) -> None:
    """Press *keys*, each after a while; whatever is checked meanwhile is shown."""
    for key, pause in zip(keys, cycle(PAUSES_MS), strict=False):
        page.keyboard.press(key)
        page.clock.run_for(pause)
        if pause >= TYPED_MS:
            page.locator("#edit:not([data-stale])").wait_for(state="attached")


#: What the caret of whoever types is at, or what is selected.
_CARET = "(field) => [field.selectionStart, field.selectionEnd]"


@pytest.mark.look
def test_what_hands_type_stays_as_they_type_it(looker: Looker, site: Site):
    """
    In a field of each builder, with pauses, corrections, selections and half a value.

    Nobody presses the button of a builder, so none of it comes into the document.
    """
    page = open_still(looker, site, NIGHTLY)
    text = page.locator("#document")
    before = text.input_value()
    for name in ("what_name", "when_time", "who_users"):
        field = page.locator(f"[name={name}]")
        field.fill("")
        field.focus()
        type_like_hands(page, [*"ab d", "Backspace", *"c17"])
        type_like_hands(page, ["ArrowLeft", "ArrowLeft", "x", "Shift+ArrowLeft"])
        page.clock.run_for(1000)
        expect(field).to_be_focused()
        expect(field).to_have_value("ab cx17")
        assert [4, 5] == field.evaluate(_CARET), name
        page.keyboard.insert_text("a paste")
        page.clock.run_for(1000)
        page.keyboard.press("Tab")
        expect(field).to_have_value("ab ca paste17")
    expect(text).to_have_value(before)

    text.focus()
    page.keyboard.press("Control+End")
    type_like_hands(page, ["Enter", *'{"ab', "Backspace"])
    expect(text).to_be_focused()
    expect(text).to_have_value(f'{before}\n{{"a')
    assert [len(before) + 4] * 2 == text.evaluate(_CARET)


#: What people choose and type, what it puts into the document, and what it tells.
BUILT: tuple[tuple[str, dict[str, str], dict[str, str | int], str], ...] = (
    (
        "every month",
        {"At": "5pm", "Time zone": "Europe/Paris"},
        {"working_day": -1, "at": "17:00", "timezone": "Europe/Paris"},
        "On the last working day of each month at 17:00",
    ),
    (
        "after another action",
        {
            "Action": "Meter readings",
            "When a run of it": "fails",
            "How long after it": "1 h",
            "Time zone": "Europe/Paris",
        },
        {
            "after_action": "Meter readings",
            "on": "failure",
            "delay": "PT1H",
            "timezone": "Europe/Paris",
        },
        "1 hour after 'Meter readings' failed",
    ),
)


def build_rule(page: Page, kind: str, keys: dict[str, str]) -> None:
    """Choose and type what says a rule, as hands do."""
    page.get_by_label("Runs", exact=True).select_option(kind)
    for day in (1, 2, 3, 4, 5):
        box = page.locator(f'[name="when_day"][value="{day}"]')
        if box.is_visible():
            box.check()
    for label, typed in keys.items():
        field = page.get_by_label(label, exact=True)
        if field.evaluate("(field) => field.tagName") == "SELECT":
            field.select_option(typed)
            continue
        if field.get_attribute("type") == "text":
            field.fill("")
        field.focus()
        type_like_hands(page, list(typed))
        page.keyboard.press("Enter")  # which checks, and sends nothing away
    page.clock.run_for(1000)


def put_rule(page: Page, when: dict[str, str | int], told: str) -> None:
    """Put the rule that is built into the document; before that, it is only told."""
    text, says = page.locator("#document"), page.locator("#when-says")
    before = json.loads(text.input_value())
    expect(says).to_contain_text(told)
    expect(says).to_contain_text("Not in the document yet")
    left = "(each) => each.getBoundingClientRect().left"
    fields = page.locator("#field-when_kind")
    assert says.locator("p").first.evaluate(left) == fields.evaluate(left)
    with leaving(page):
        page.locator('[value="put-when"]').press("Enter")

    assert before.get("when") != when
    assert {**before, "when": when} == json.loads(text.input_value())
    expect(text).to_be_focused()
    expect(says).to_contain_text("The document says the same.")
    expect(page.locator("#preview .large")).to_contain_text(told)


def test_actions_are_made_without_a_line_of_json(looker: Looker, own_site: Site):
    """By hands that rest between keys: name, steps, rule and recipients; then saved."""
    made = {}
    for number, (kind, keys, when, told) in enumerate(BUILT):
        page = open_still(looker, own_site, "/actions/new?app=delta-energy")
        page.get_by_label("Name", exact=True).focus()
        type_like_hands(page, [*f"made {number}"])
        page.get_by_label("send_execsum", exact=True).check()
        page.get_by_label("refresh", exact=True).uncheck()
        with leaving(page):
            page.locator('[value="put-what"]').press("Enter")
        page.get_by_label("Mails to the groups", exact=True).focus()
        type_like_hands(page, [*"all"])
        with leaving(page):
            page.locator('[value="put-who"]').press("Enter")
        build_rule(page, kind, keys)
        put_rule(page, when, told)
        with leaving(page):
            page.get_by_role("button", name="Save", exact=True).click()
        made[f"made {number}"] = when
        page.close()

    kept = scheduled_actions.c
    query = sa.select(kept.name, kept.document).where(kept.name.like("made %"))
    stored = {row.name: row.document for row in fetch_rows(own_site.engine, query)}
    assert made == {name: each["when"] for name, each in stored.items()}
    for each in stored.values():
        assert {"send_execsum": True} == each["operations"]
        assert {"groups": ["all"]} == each["recipients"]


def test_first_action_takes_a_minute(looker: Looker, empty_site: Site):
    """From an installation that has nothing: choose, and save by key."""
    looker.watch.expected = {404}  # while there is no page of an action
    page = looker.open(empty_site, "/actions/new")
    with leaving(page):
        page.get_by_role("link", name="Weekdays at seven").click()
    expect(page.locator("#preview .large")).to_contain_text("Monday to Friday")
    page.locator("#document").press("Control+s")

    expect(page).not_to_have_url(f"{empty_site.url}/actions/new?starter=weekdays")
    kept = scheduled_actions.c
    query = sa.select(kept.name).where(kept.app == "main")
    assert ["summary of the day before"] == list(
        fetch_rows(empty_site.engine, query).scalars()
    )


def test_second_click_sends_nothing(looker: Looker, own_site: Site):
    """Whoever clicks twice is led on, and not told that there is such an action."""
    page = looker.open(own_site, NIGHTLY)
    sent: list[str] = []

    def note(route: Route) -> None:
        sent.append(route.request.method)
        route.continue_()

    page.route(re.compile("/actions/new$"), note)

    with leaving(page):
        page.get_by_role("button", name="Save", exact=True).dblclick(delay=100)

    expect(page.get_by_text("is saved as revision 1.")).to_be_visible()
    assert ["POST"] == sent


def test_session_that_ends_takes_nothing(looker: Looker, own_site: Site):
    """Who was typing signs in beside the page, and goes on in it."""
    looker.watch.expected = {401}
    page = looker.open(own_site, NIGHTLY)
    context, text, banner = page.context, page.locator("#document"), "#not-live"
    cookies = context.cookies()
    context.clear_cookies()

    text.press("End")
    page.keyboard.type(" ")

    expect(page.locator(banner)).to_contain_text("what you typed stays here")
    with context.expect_page() as beside:
        page.get_by_role("link", name="Sign in again").click()
    expect(beside.value.get_by_role("heading", name="Sign in")).to_be_visible()
    context.add_cookies([{**each} for each in cookies])  # type: ignore[typeddict-item]
    text.press("End")
    page.keyboard.type(" ")
    expect(page.locator(banner)).to_be_hidden()


def test_without_script_a_button_checks(looker: Looker, own_site: Site):
    """Problems, a proposal, a builder, and a revision saved."""
    looker.watch.expected = {404, 422}  # 404: while there is no page of an action
    path = "/actions/nightly-warehouse-load"
    page = looker.open(own_site, f"{path}/edit", script=False)
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
        page.locator('[value="put-what"]').click()
    named = re.compile('"name": "another name"')
    expect(page.locator("#document")).to_have_value(named)
    page.get_by_role("button", name="Save as a new revision").click()
    page.wait_for_url(f"{own_site.url}{path}")
