"""What nobody types into a form, but anybody can send: no page answers with 500."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.integration.api.made_up import POSITIONS, make_cursor
from tests.integration.web.conftest import Person

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


def test_number_that_is_none_is_refused(admin: Person):
    """Wherever a form has one; nothing is changed."""
    uid = admin.shop.actions["report"]
    forms: list[tuple[str, dict[str, str]]] = [
        ("/apps/shop/publish", {"version": "sales={}"}),
        ("/apps/shop/rollback", {"version": "sales={}"}),
        ("/mails/resend?state=failed", {}),
        ("/mails/confirm", {}),
        ("/bulk/new", {"change": "retry", "filter": "{{}}"}),
        ("/bulk/new", {"change": "pause", "filter": "{{}}"}),
        (f"/actions/{uid}/edit", {"do": "overwrite", "document": "{{}}"}),
    ]
    answers = {}
    for number, (path, fields) in product(NUMBERS, forms):
        filled = {name: text.format(number) for name, text in fields.items()}
        given = {"expected_count": number, "current": number, **filled}
        answer = admin.client.post(path, data=given)
        answers[number[:5], path, str(fields)] = answer.status_code

    assert {} == {case: each for case, each in answers.items() if each // 100 != 4}


def test_filter_that_is_no_filter_is_refused(admin: Person):
    """However deep it is."""
    texts = ("[" * 100_000, '{"ids":' * 50_000, "9" * 5000)
    fields = {"change": "retry", "expected_count": "1"}
    answers = [
        admin.client.post("/bulk/new", data={**fields, "filter": each})
        for each in texts
    ]

    assert [404] * 3 == [each.status_code for each in answers]


def test_page_leads_to_no_other_site(admin: Person):
    """Browsers leave out the tabs of an address, and two slashes begin a host."""
    foreign = ("//evil.example", "/\\evil.example", "/\t/evil.example")
    query = {"change": "pause", "all": "1"}
    pages = {
        back: admin.client.get("/bulk/new", params={**query, "back": back}).text
        for back in foreign
    }

    assert [] == [back for back, page in pages.items() if f'href="{back}"' in page]
    assert [] == [b for b, page in pages.items() if 'href="/actions"' not in page]


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
        for position in POSITIONS[::3]:
            cursor = make_cursor(path, {}, position)
            answer = admin.client.get(path, params={"cursor": cursor})
            if answer.status_code not in {200, 400}:
                faults.append(f"{path}: {position}: {answer.status_code}")

    if faults:
        pytest.fail("\n".join(faults))
