"""The pages of operations in a browser: looked at, used, and without script."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
import sqlalchemy as sa
from playwright.sync_api import Route, expect

from models.database.engine import writing
from models.database.tables import operation_steps, operations
from tests.browser.looking import NARROW, Looker, leaving
from tests.database import fetch_rows
from tests.seeded.sites import Site


def find(site: Site, state: str) -> str:
    """Return the id of the latest operation in *state* with the most attempts."""
    kept = operations.c
    query = sa.select(kept.id).where(kept.state == state)
    order = (kept.attempt.desc(), kept.recorded_at.desc())
    return str(fetch_rows(site.engine, query.order_by(*order).limit(1)).scalar_one())


@pytest.mark.look
def test_list_is_used_with_keys(looker: Looker, site: Site):
    """From row to row with j and k; x selects, r asks."""
    page = looker.open(site, "/operations?state=failed")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("tbody[data-row] input:checked")).to_have_count(1)
    page.locator("tbody[data-row] th a").first.focus()
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Retry 1 operation")).to_be_visible()
    page.keyboard.press("Escape")
    # It gives the focus back as it goes, a moment after it is closed.
    expect(dialog).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/operations/[0-9a-f-]{36}$"))


def test_many_are_canceled_after_a_count(looker: Looker, own_site: Site):
    """Those that were ticked, on a phone; title and button have the number."""
    page = looker.open(own_site, "/operations?state=queued&range=all", width=NARROW)
    page.get_by_label("Select the", exact=False).check()
    page.locator("tbody[data-row] input").first.uncheck()
    count = page.locator("tbody[data-row]").count() - 1
    with leaving(page):
        page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name=f"Cancel {count} operations").click()
    page.wait_for_url(re.compile("/bulk/"))

    expect(page.get_by_role("progressbar")).to_be_visible()


#: What tells a page of what happens.
_STREAM = re.compile("/api/v1/stream")


def end_as(site: Site, live: str, failed: str) -> None:
    """Let *live* run and end as *failed* did, at once, with a line more of an error."""
    kept, steps = operations.c, operation_steps.c
    with writing(site.engine) as connection:
        row = connection.execute(sa.select(operations).where(kept.id == failed)).one()
        became = ("state", "reason", "error", "attempt", "started_at", "finished_at")
        values = {name: getattr(row, name) for name in became}
        values["error"] += "\nsaid by its proxy"  # only the panel of the failure has it
        connection.execute(sa.update(operations).where(kept.id == live).values(values))
        connection.execute(sa.delete(operation_steps).where(steps.operation_id == live))
        query = sa.select(operation_steps).where(steps.operation_id == failed)
        rows = [each._asdict() for each in connection.execute(query)]
        connection.execute(
            sa.insert(operation_steps),
            [{**each, "operation_id": UUID(live)} for each in rows],
        )


@pytest.mark.parametrize("ends", ["while it listens", "before it listens"])
def test_run_is_followed_to_its_end(looker: Looker, own_site: Site, ends: str):
    """State, steps, failure and keys; also of one that ends before the page listens."""
    live, failed = find(own_site, "queued"), find(own_site, "failed")
    page = looker.enter(own_site).new_page()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(_STREAM, hold, times=1)
    with page.expect_request(_STREAM):
        page.goto(f"{own_site.url}/operations/{live}")
    keys = page.locator(".foot .keys")
    expect(keys).to_contain_text("cancel")
    expect(page.locator("#failure")).to_be_hidden()

    if ends == "before it listens":
        end_as(own_site, live, failed)
        held[0].continue_()
    else:
        with page.expect_response(_STREAM):
            held[0].continue_()
        end_as(own_site, live, failed)

    expect(page.locator("#answer .pill").first).to_have_text("failed")
    expect(page.locator("#steps svg.chart")).to_be_visible()
    expect(page.locator("#failure")).to_be_visible()
    expect(keys).to_contain_text("retry")
    expect(keys).not_to_contain_text("cancel")


@pytest.mark.look
def test_foot_has_no_gap_for_keys_that_there_are_not(looker: Looker, site: Site):
    """Of a run that went well, which nobody cancels or retries."""
    page = looker.open(site, f"/operations/{find(site, 'succeeded')}")

    expect(page.locator("#own-keys")).to_be_hidden()
    expect(page.locator(".foot .keys")).to_contain_text("search")


def test_list_that_is_read_does_not_move(looker: Looker, own_site: Site):
    """What is new waits behind a button."""
    page = looker.follow(own_site, "/operations")
    before = page.locator("tbody[data-row]").first.get_attribute("id")
    newer = own_site.scene.make_id("newer", "one")
    with writing(own_site.engine) as connection:
        row = connection.execute(
            sa.select(operations).where(operations.c.state == "succeeded").limit(1)
        ).one()
        at = {"recorded_at": own_site.scene.now, "finished_at": None}
        values = row._asdict() | {"id": newer, "state": "running", **at}
        connection.execute(sa.insert(operations).values(values))
    button = page.get_by_role("button", name="1 newer: show")
    button.wait_for()
    assert before == page.locator("tbody[data-row]").first.get_attribute("id")
    button.click()
    page.locator(f"tbody#op-{newer}").wait_for()
