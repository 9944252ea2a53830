"""What nobody types into a form, but anybody can send: no page answers with 500."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from overview.access.roles import Role
from tests.integration.api.prepared import Prepared
from tests.integration.web.conftest import OWN
from tests.integration.web.people import Person, sign_in

#: More digits than Python makes a number of; and one that is a digit, but no number.
NUMBERS = ("9" * 5000, "٣" * 5000, "²", "-1", "1e400")


@pytest.fixture
def admin(browser: TestClient, engine: sa.Engine, shop: Prepared) -> Person:
    """Give somebody who may do everything."""
    return sign_in(browser, engine, shop)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:5])
def test_number_that_is_none_is_refused(admin: Person, number: str):
    """
    Wherever a form has one; nothing is changed.
    """
    uid = admin.shop.actions["report"]
    forms = [
        ("/apps/shop/publish", {"version": f"sales={number}"}),
        ("/apps/shop/rollback", {"version": f"sales={number}"}),
        ("/mails/resend?state=failed", {"expected_count": number}),
        ("/mails/confirm", {"expected_count": number}),
        ("/operations/bulk", {"kind": "retry", "filter": "{}"}),
        ("/bulk/new", {"kind_of_change": "pause", "all": "1"}),
        (f"/actions/{uid}/edit", {"do": "overwrite", "document": "{}"}),
    ]
    for path, fields in forms:
        given = {"expected_count": number, "current": number, **fields}
        answer = admin.client.post(path, data=given, headers=OWN)
        assert 400 <= answer.status_code < 500, path


@pytest.mark.parametrize("text", ["[" * 100_000, '{"ids":' * 50_000, "9" * 5000])
def test_filter_that_is_no_filter_is_refused(admin: Person, text: str):
    """
    However deep it is.
    """
    fields = {"kind": "retry", "filter": text, "expected_count": "1"}
    answer = admin.client.post("/operations/bulk", data=fields, headers=OWN)

    assert 404 == answer.status_code


@pytest.mark.parametrize(
    "back", ["//evil.example", "/\\evil.example", "/\t/evil.example"]
)
def test_page_leads_to_no_other_site(admin: Person, back: str):
    """
    Browsers leave out the tabs of an address, and two slashes begin a host.
    """
    query = {"kind_of_change": "pause", "all": "1", "back": back}
    answer = admin.client.get("/bulk/new", params=query)

    assert f'href="{back}"' not in answer.text
    assert 'href="/actions"' in answer.text


def test_tenant_who_names_another_app_changes_nothing(
    browser: TestClient, engine: sa.Engine, shop: Prepared
):
    """
    Neither there nor in their own.
    """
    person = sign_in(browser, engine, shop, Role.ADMIN, "shop")
    chosen = json.dumps({"app": "books"})
    fields = {"kind": "retry", "filter": chosen, "expected_count": "1"}
    answer = person.client.post("/operations/bulk", data=fields, headers=OWN)

    assert 404 == answer.status_code
    assert "no small app" in answer.text


def test_mails_of_a_step_that_is_none_are_told(admin: Person):
    """
    A link may name a step that an operation does not have.
    """
    text = admin.look(f"/mails/{admin.shop.ids['operation_id']}?step=lost")

    assert "No mails" in text
