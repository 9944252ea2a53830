"""Notices, as the commands that list and explain show them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from actions.lease import Leader
from dispatch.noticer import Noticer
from models.operation_state import OperationState
from tests.integration.cli.calling import Call
from tests.scheduling import edit, fetch_all, get_now, make_operation, post, record_all

UID = "minutehand-notices"

HOOK = "https://hooks.example.com/services/hunter2"


@pytest.fixture
def told(call: Call, shop: Path, engine: sa.Engine) -> Call:
    """Give a database in which one operation failed, and the operator will be told."""
    del shop
    post(engine, "shop", uid="daily")
    [failed] = record_all(engine, make_operation(0, app="shop"))
    ended = {"state": OperationState.FAILED, "finished_at": get_now(engine)}
    told = {"reason": "step failed: run_task", "error": "run_task: it is away"}
    edit(engine, failed, **ended, **told)
    leader = Leader(engine)
    assert leader.hold()
    with capture_logs():  # not into what the commands print
        noticer = Noticer(engine, leader, mail=("ops@example.org",), webhook=HOOK)
        assert 1 == noticer.look()
    leader.release()
    return call


def test_notice_is_listed_and_shown(told: Call):
    listed = told("operations", "list", "--app", "minutehand", "--json").data
    people = told("operations", "list")
    shown = told("operations", "show", listed[0]["id"])

    assert ["notice"] == [each["trigger"] for each in listed]
    assert 'Notice to the operator: shop: "daily" failed' in listed[0]["triggerrer"]
    assert (0, 0) == (people.code, shown.code)
    assert "notify" in shown.out


def test_address_of_a_webhook_is_not_shown(told: Call, engine: sa.Engine):
    """Whoever may look at operations could post to it; all else there is shown."""
    [row] = [each for each in fetch_all(engine) if each.action_uid == UID]
    edit(engine, row.id, details={**row.details, "attempts": []})
    [listed] = told("operations", "list", "--app", "minutehand", "--json").data

    assert "hooks.example.com" == listed["details"]["notice"]["webhook"]
    assert {"notice", "attempts"} == listed["details"].keys()


def test_its_action_is_listed_and_explained(told: Call, engine: sa.Engine):
    """It can be read, and the audit finds nothing wrong with what it did."""
    minute = f"{get_now(engine):%Y-%m-%dT%H:%M:00Z}"

    assert "cannot be read" not in told("actions", "list").out
    assert 0 == told("actions", "show", UID).code
    assert 0 == told("why", UID, "--at", minute).code
    audited = told("audit", "--app", "minutehand", "--from", minute)
    assert 0 == audited.code, audited.out


def test_test_notice_is_recorded(call: Call, shop: Path):
    refused = call("apps", "test-notice", "shop")
    document = {"uid": "shop", "notices": {"mail": ["ops@example.org"]}}
    (shop / "app.json").write_text(json.dumps(document))
    assert 0 == call("apps", "apply", str(shop / "app.json")).code
    sent = call("apps", "test-notice", "shop", "--json")

    listed = call("operations", "list", "--app", "minutehand", "--json").data

    assert 5 == refused.code
    assert [sent.data["operation"]] == [each["id"] for each in listed]
