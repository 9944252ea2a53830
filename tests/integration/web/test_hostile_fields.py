"""What nobody types into a form, but anybody can send: no page answers with 500."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from tests.integration.api.made_up import POSITIONS, make_cursor
from tests.integration.api.prepared import Prepared
from tests.integration.web.conftest import OWN
from tests.integration.web.people import Person, sign_in

#: More digits than Python makes a number of; and one that is a digit, but no number.
NUMBERS = ("9" * 5000, "٣" * 5000, "²", "-1", "1e400")

#: The pages that have a list with parts.
LISTS = (
    *("/actions", "/apps", "/apps/shop/users", "/events", "/mails", "/operations"),
    *("/settings", "/settings/changes", "/mails/{operation_id}"),
    *("/backfills/{backfill_id}", "/actions/{uid}/recipients"),
)

#: Each page that has one asks for its part once.
ASKING = "query.page("

WEB = Path(__file__).parents[3] / "web"


@pytest.fixture
def admin(browser: TestClient, engine: sa.Engine, shop: Prepared) -> Person:
    """Give somebody who may do everything."""
    return sign_in(browser, engine, shop)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:5])
def test_number_that_is_none_is_refused(admin: Person, number: str):
    """Wherever a form has one; nothing is changed."""
    uid = admin.shop.actions["report"]
    forms = [
        ("/apps/shop/publish", {"version": f"sales={number}"}),
        ("/apps/shop/rollback", {"version": f"sales={number}"}),
        ("/mails/resend?state=failed", {"expected_count": number}),
        ("/mails/confirm", {"expected_count": number}),
        ("/bulk/new", {"change": "retry", "filter": "{}"}),
        ("/bulk/new", {"change": "pause", "filter": "{}"}),
        (f"/actions/{uid}/edit", {"do": "overwrite", "document": "{}"}),
    ]
    for path, fields in forms:
        given = {"expected_count": number, "current": number, **fields}
        answer = admin.client.post(path, data=given, headers=OWN)
        assert 400 <= answer.status_code < 500, path


@pytest.mark.parametrize("text", ["[" * 100_000, '{"ids":' * 50_000, "9" * 5000])
def test_filter_that_is_no_filter_is_refused(admin: Person, text: str):
    """However deep it is."""
    fields = {"change": "retry", "filter": text, "expected_count": "1"}
    answer = admin.client.post("/bulk/new", data=fields, headers=OWN)

    assert 404 == answer.status_code


@pytest.mark.parametrize(
    "back", ["//evil.example", "/\\evil.example", "/\t/evil.example"]
)
def test_page_leads_to_no_other_site(admin: Person, back: str):
    """Browsers leave out the tabs of an address, and two slashes begin a host."""
    query = {"change": "pause", "all": "1", "back": back}
    answer = admin.client.get("/bulk/new", params=query)

    assert f'href="{back}"' not in answer.text
    assert 'href="/actions"' in answer.text


def test_mails_of_a_step_that_is_none_are_told(admin: Person):
    """A link may name a step that an operation does not have."""
    text = admin.look(f"/mails/{admin.shop.ids['operation_id']}?step=lost")

    assert "No mails" in text


def test_lists_are_those_that_have_parts():
    """A page that gets such a list is tried with made-up cursors, too."""
    asking = sum(path.read_text().count(ASKING) for path in WEB.rglob("*.py"))

    assert len(LISTS) == asking


@pytest.mark.slow
def test_cursor_that_was_made_up_breaks_no_page(admin: Person):
    """The page says so, begins anew, or goes on where the cursor says."""
    faults = []
    for each in LISTS:
        path = each.format(**admin.shop.ids)
        # all of them are tried with the lists of the API
        for position in POSITIONS[::4]:
            cursor = make_cursor(path, {}, position)
            answer = admin.client.get(path, params={"cursor": cursor})
            if answer.status_code not in {200, 400}:
                faults.append(f"{path}: {position}: {answer.status_code}")

    if faults:
        pytest.fail("\n".join(faults))
