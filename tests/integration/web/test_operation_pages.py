"""The pages of operations: what they show, what they do, and to whom."""

from __future__ import annotations

import re
import threading
from uuid import UUID, uuid4

import sqlalchemy as sa
from starlette.testclient import TestClient

from models.operation_state import OperationState
from operations.reasons import STATES
from tests.integration.api.prepared import Prepared
from tests.integration.web.conftest import Person, enter_as
from tests.scheduling import add_log, edit, get

ALL = "/operations?range=all"


def find_rows(text: str) -> set[UUID]:
    """Return the operations that a list shows."""
    return {UUID(each) for each in re.findall(r'id="op-([0-9a-f-]{36})"', text)}


def test_list_shows_every_state_with_its_reason(admin: Person):
    """Each in the words for it, and why it did not run with what can be done."""
    text = admin.look(ALL)

    assert set(admin.shop.operations.values()) <= find_rows(text)
    for state in OperationState:
        assert f's-{state}" title="{STATES[OperationState(state)]}"' in text
    for link in ("same failures", "others like it", "retry…", "cancel…"):
        assert f">{link}</a>" in text
    assert len(text.encode()) < 200_000


def test_filters_are_in_the_address(admin: Person):
    """A link shows the same to everybody who may see it."""
    states = {
        "state=failed": "failed",
        "text=Qshopq&state=missed": "missed",
        "app=shop&state=succeeded": "succeeded",
        "from=2026-01-05T00:00:00Z&state=skipped": "skipped",
    }
    named = {id_: name for name, id_ in admin.shop.operations.items()}

    assert {query: {state} for query, state in states.items()} == {
        query: {
            named[each]
            for each in find_rows(admin.look(f"{ALL}&{query}"))
            if each in named
        }
        for query in states
    }


def test_what_cannot_be_read_is_told_and_left_out(admin: Person):
    """A link of yesterday, or a typo, still leads to a list."""
    bad = "state=broken&app=nowhere&from=soon&cursor=x&queue=slow&same_as=1&range=9y"
    text = admin.look(f"/operations?{bad}&text={'a' * 300}&unknown=1")

    assert 8 == text.count('class="banner b-warn" role="status"')
    assert "nowhere" in text


def test_list_says_when_nothing_matches(admin: Person):
    """Nothing in the last day, unless it is not final; and nothing at all."""
    old = admin.look("/operations")
    nothing = admin.look(f"{ALL}&text=nosuchthing")

    assert "not final, and older than this list" in old
    assert "Nothing matches" in nothing
    assert "Clear filters" in nothing


def test_each_operation_has_a_page(admin: Person):
    """With its id, how it is computed, and what became of it."""
    for state, id_ in admin.shop.operations.items():
        text = admin.look(f"/operations/{id_}")
        assert str(id_) in text
        meaning = STATES[OperationState(state)]
        assert f's-{state} pill pill-big" title="{meaning}"' in text
        assert "UUID 5 of" in text
        assert len(text.encode()) < 200_000
    admin.look(f"/operations/{uuid4()}", 404)
    admin.look("/operations/nonsense", 404)


def test_error_is_not_repeated_below_itself(admin: Person, engine: sa.Engine):
    """It stands in the largest words; what has more than these, has a panel."""
    id_ = admin.shop.operations["failed"]
    told = {}
    for error in ("call_webhook: 410 Gone", "410 Gone", "410 Gone\nby the proxy"):
        edit(engine, id_, error=error, reason="step failed: call_webhook")
        (panel,) = re.findall(r'id="failure"[^>]*>', admin.look(f"/operations/{id_}"))
        told[error] = "hidden" not in panel

    assert [False, False, True] == [*told.values()]


def test_huge_error_and_log_do_not_break_the_page(admin: Person, engine: sa.Engine):
    """What an older version kept in full is bounded; a link has all."""
    id_ = admin.shop.operations["failed"]
    edit(engine, id_, error="<script>alert(1)</script>" + "x" * 2**20)
    lines = [f"<b>{number}</b> " + "y" * 900 for number in range(400)]
    add_log(engine, id_, lines, first=1000)
    answer = admin.client.get(f"/operations/{id_}")
    row = admin.client.get(f"{ALL}&state=failed")
    log = admin.client.get(f"/operations/{id_}/log")

    for page in (answer, row):
        assert page.status_code == 200
        assert len(page.content) < 200_000
        assert "<script>alert" not in page.text
    assert "<b>399</b>" not in answer.text
    assert "<b>399</b>" in log.text
    assert log.headers["content-type"].startswith("text/plain")


def test_operation_is_canceled_with_a_note(admin: Person, engine: sa.Engine):
    """After a question that names it; a second time it is a conflict, told in place."""
    id_ = admin.shop.operations["queued"]
    asked = admin.look(f"/operations/{id_}/cancel")
    text = admin.do(f"/operations/{id_}/cancel", note="wrong source")
    again = admin.client.post(f"/operations/{id_}/cancel")

    assert "Cancel 1 operation" in asked
    assert "canceled" == get(engine, id_).state
    assert "Canceled." in text
    assert "wrong source" in text
    assert again.status_code == 409
    assert "already canceled" in again.text


def test_operation_is_retried_from_a_step(admin: Person, engine: sa.Engine):
    """What was refused keeps what was typed."""
    id_ = admin.shop.operations["failed"]
    refused = admin.client.post(
        f"/operations/{id_}/retry", data={"from_step": "sendmail", "note": "try & see"}
    )
    text = admin.do(f"/operations/{id_}/retry", from_step="", note="")

    assert refused.status_code == 400
    assert "has no step" in refused.text
    assert "try &amp; see" in refused.text
    assert "pending" == get(engine, id_).state
    assert "Retried" in text


def find_count(text: str) -> int:
    """Return how many a question is about."""
    (count,) = re.findall(r">Retry (\d+) operations\?<", text)
    return int(count)


def follow(person: Person, text: str) -> str:
    """Return the page of a bulk change when it is over."""
    path = re.search(r'href="(/bulk/[0-9a-f-]+)/cancel"', text)
    tired = threading.Event()
    for _ in range(600):
        if path is None:
            break
        text = person.look(path[1])
        if "goes on if you leave" not in text:
            break
        tired.wait(0.05)
    return text


def test_all_that_match_are_retried(admin: Person, engine: sa.Engine):
    """Counted first, by the filter of the list; the progress has a page."""
    query = "change=retry&all=1&range=all&app=shop"
    asked = admin.look(f"/bulk/new?{query}")
    text = follow(admin, admin.do(f"/bulk/new?{query}", note="works again"))

    count = find_count(asked)
    assert count >= 2
    assert f"{count} of {count} retried" in text
    assert "works again" in text
    assert "pending" == get(engine, admin.shop.operations["failed"]).state


def test_what_was_ticked_is_canceled(admin: Person, engine: sa.Engine):
    """And nothing else; what is final already is left out of the count."""
    ids = [admin.shop.operations[each] for each in ("pending", "failed")]
    query = "&".join(f"id={each}" for each in ids)
    asked = admin.look(f"/bulk/new?change=cancel&{query}")
    follow(admin, admin.do(f"/bulk/new?change=cancel&{query}"))

    assert "Cancel 1 operation?" in asked
    assert "canceled" == get(engine, ids[0]).state
    assert "failed" == get(engine, ids[1]).state
    assert "queued" == get(engine, admin.shop.operations["queued"]).state


def test_made_up_form_is_refused(admin: Person):
    """With a page, never with a defect."""
    forms: list[dict[str, str]] = [
        {"change": "explode", "filter": "{}"},
        {"change": "cancel", "filter": "["},
        {"change": "cancel", "filter": '{"ids": [1]}', "expected_count": "1"},
        {"change": "cancel", "filter": '{"ids": "x"}', "expected_count": "-1"},
        {},
    ]
    answers = {
        str(each): admin.client.post("/bulk/new", data=each).status_code
        for each in forms
    }

    assert {4} == {status // 100 for status in answers.values()}, answers


def test_filter_with_a_problem_changes_nothing(admin: Person):
    """More would be meant than was written."""
    path = "/bulk/new?change=cancel&all=1&range=all&app=nowhere"

    assert "nowhere" in admin.look(path, 422)


def test_tenant_sees_nothing_of_others(
    browser: TestClient, engine: sa.Engine, shop: Prepared
):
    """Where a query or a form names it: as if it had never been."""
    person = Person(enter_as(browser, engine, app="books"), shop)
    failed = shop.operations["failed"]

    assert "same_as: " in person.look(f"{ALL}&same_as={failed}")
    asked = person.look(f"/bulk/new?change=retry&id={failed}")
    assert '<h1 class="large">Nothing to retry</h1>' in asked
    chosen = {"change": "retry", "filter": f'{{"ids": ["{failed}"]}}'}
    form = {**chosen, "expected_count": "1"}
    sent = person.client.post("/bulk/new", data=form)
    assert sent.status_code == 409
    assert "failed" == get(engine, failed).state
