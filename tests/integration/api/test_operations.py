"""Operations over HTTP: listed, read, waited for, canceled and retried."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID

import httpx2
import pytest
import sqlalchemy as sa

from api.answers import ROOT
from models.database.tables import changes
from models.fields.instants import format_instant
from models.json_form import write_json
from models.operation_state import FINAL_STATES, OperationState, Trigger
from models.role import Role
from operations.state import get_operation_state
from overview.operations import fetch_shown_operation
from serving.services import Services
from tests.database import fetch_rows, read_by
from tests.integration.api.conftest import APP, OTHER, Web
from tests.scheduling import add_steps, edit, get, make_operation, post, put

STEPS = {"refresh": True, "publish": True, "send_email": {"template": "t"}}


@pytest.fixture(autouse=True)
def _actions(web: Web) -> None:
    """Give each small app an action."""
    for app in (APP, OTHER):
        named: dict[str, Any] = {"uid": f"of-{app}", "name": "daily"}
        named |= {"operations": STEPS, "recipients": {"groups": ["all"]}}
        post(web.engine, app, **named)


def add(web: Web, number: int = 0, app: str = APP, **values: Any) -> UUID:
    """Record an operation of *app*, and write *values* into it."""
    return put(web.engine, number, action_uid=f"of-{app}", app=app, **values)


def add_failed(web: Web) -> UUID:
    """Record an operation that failed at its second step."""
    operation_id = add(web, state="failed", reason="step failed: publish", attempt=1)
    states = zip(STEPS, ("succeeded", "failed", "skipped"), strict=True)
    steps = [{"name": name, "state": state, "attempt": 1} for name, state in states]
    add_steps(web.engine, operation_id, *steps)
    return operation_id


def find(web: Web, query: str = "", **options: Any) -> list[str]:
    """Return the ids of a list, turning its pages."""
    found: list[str] = []
    path = f"/operations?{query}"
    while True:
        answer = web.get(path, **options)
        assert 200 == answer.status_code, answer.text
        found += [item["id"] for item in answer.json()["items"]]
        if "next" not in answer.links:
            assert answer.json()["next_cursor"] is None
            return found
        path = answer.links["next"]["url"].removeprefix(ROOT)


def test_list_is_filtered(web: Web):
    """By several states, queue, trigger, reason, text, action and time."""
    pending = str(add(web, 0))
    failed = str(add(web, 1, state="failed", reason="step failed: publish"))
    manual = str(add(web, 2, trigger=Trigger.MANUAL, queue="heavy", state="canceled"))

    assert [failed] == find(web, "state=failed")
    assert [failed, pending] == find(web, "state=failed&state=pending")
    assert [manual] == find(web, "queue=heavy")
    assert [manual] == find(web, "trigger=manual")
    assert [failed] == find(web, "reason=step failed")
    assert [failed] == find(web, "text=PUBLISH")
    assert [failed] == find(web, f"text={failed}")
    assert [manual, failed, pending] == find(web, "action=daily")
    assert [manual, failed, pending] == find(web, f"action=of-{APP}&limit=1")
    at = format_instant(make_operation(2).occurrence)
    assert [manual] == find(web, f"from={at}")
    assert [failed, pending] == find(web, f"until={at}")
    at = format_instant(get(web.engine, UUID(failed)).recorded_at)
    assert [manual, failed] == find(web, f"recorded_from={at}")
    assert [pending] == find(web, f"recorded_until={at}")


def test_state_is_what_the_function_says(web: Web):
    """The same answer in each form."""
    operation_id = add(web)
    for state in OperationState:
        edit(web.engine, operation_id, state=state)

        answer = web.get(f"/operations/{operation_id}/state").json()

        assert read_by(web.engine, get_operation_state, operation_id) == answer["state"]
        assert (state in FINAL_STATES) == answer["is_final"]


@pytest.mark.parametrize(
    "query", [f"app={OTHER}", f"action=of-{OTHER}", "action=dayly"]
)
def test_filter_by_what_is_not_there_is_not_found(web: Web, query: str):
    """Nothing of another small app is named."""
    answer = web.get(f"/operations?{query}")

    assert 404 == answer.status_code
    assert f"of-{OTHER}" not in answer.text.replace(f"'of-{OTHER}'", "", 1)


def test_operation_is_read_with_its_steps(web: Web):
    """As the command line prints it."""
    operation_id = add_failed(web)

    shown = web.get(f"/operations/{operation_id}")
    steps = web.get(f"/operations/{operation_id}/steps")

    expected = read_by(web.engine, fetch_shown_operation, operation_id)
    assert json.loads(write_json(expected)) == shown.json()
    assert shown.json()["steps"] == steps.json()["items"]
    assert [*STEPS] == [step["name"] for step in steps.json()["items"]]


def test_many_wait_at_once(web: Web):
    """More than there are threads; others are served meanwhile."""
    operation_id = add(web, state="running")
    services: Services = web.client.app.state.services  # type: ignore[attr-defined]
    headers = {"Authorization": f"Bearer {web.keys[APP, Role.VIEWER]}"}

    async def wait() -> tuple[list[httpx2.Response], httpx2.Response, int]:
        transport = httpx2.ASGITransport(app=web.client.app)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://test", headers=headers, timeout=60
        ) as client:
            path = f"{ROOT}/operations/{operation_id}"
            waiting = [
                asyncio.create_task(client.get(f"{path}/state?wait=60"))
                for _ in range(50)
            ]
            while services.waiters.count < len(waiting):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            other = await client.get(path)
            still = services.waiters.count
            edit(web.engine, operation_id, state="succeeded")
            return await asyncio.gather(*waiting), other, still

    answers, other, still = asyncio.run(wait())

    assert (200, 50) == (other.status_code, still)
    assert {(200, "succeeded")} == {
        (each.status_code, each.json()["state"]) for each in answers
    }
    assert 0 == services.waiters.count


def test_cancel_is_final_at_once(web: Web):
    """A second time it is a conflict; who did it is noted, with their note."""
    operation_id = add(web)

    done = web.post(
        f"/operations/{operation_id}/cancel", {"note": "too late"}, role=Role.OPERATOR
    )
    again = web.post(f"/operations/{operation_id}/cancel")

    assert (200, "canceled") == (done.status_code, done.json()["state"])
    assert 409 == again.status_code
    assert f"operation {operation_id} is already canceled" == again.json()["detail"]
    (row,) = fetch_rows(
        web.engine, sa.select(changes).where(changes.c.kind == "operation")
    ).all()
    assert ("canceled", str(operation_id), APP) == (row.change, row.subject, row.app)
    assert (f"operator of {APP}", "too late") == (row.by, row.note)
    assert row.key_id in web.keys[APP, Role.OPERATOR]


def test_first_digits_of_an_id_are_one(web: Web):
    """As lists show them; of another app's they are none."""
    own, theirs = add(web), add(web, 1, app=OTHER)

    assert str(own) == web.get(f"/operations/{str(own)[:8]}").json()["id"]
    assert 404 == web.get(f"/operations/{str(theirs)[:8]}").status_code
    assert 404 == web.get(f"/operations/{'f' * 8}/log").status_code


def test_what_was_probably_meant_is_told(web: Web):
    """Of a route, and of an action; never one of another app."""
    route = web.get("/operation/counts").json()["detail"]
    action = web.get(f"/actions/off-{APP}").json()["detail"]
    theirs = web.get(f"/actions/off-{OTHER}", app=APP).json()["detail"]

    assert f"Did you mean '{ROOT}/operations/counts'?" in route
    assert f"Did you mean 'of-{APP}'?" in action
    assert f"'of-{OTHER}'" not in theirs


def test_failures_of_one_cause_are_found(web: Web):
    """By one of them."""
    failed = {"state": "failed", "reason": "step failed: publish"}
    first = add(web, 0, **failed, error="publish: version 3 is gone")
    second = add(web, 1, **failed, error="publish: version 4 is gone")
    add(web, 2, **failed, error="publish: nothing is staged")
    pending = add(web, 3)

    assert [str(second), str(first)] == find(web, f"same_as={first}")
    refused = web.get(f"/operations?same_as={pending}")
    assert (400, True) == (refused.status_code, "has no cause" in refused.text)


def test_row_says_why_and_what_can_be_done(web: Web):
    """In the zone of its action and in UTC."""
    waiting = add(web, 0, state="pending", reason="worker lost", attempt=1)

    shown = web.get(f"/operations/{waiting}").json()

    expected = {"mark": "retrying", "uncertain_mails": 0, "zone": "UTC"}
    assert expected.items() <= shown.items()
    assert "cancel" in shown["why"]["remedies"]
    assert [str(waiting)] == find(web, "mark=retrying")
    assert [] == find(web, "mark=uncertain")
