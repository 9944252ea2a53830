"""Status, workers, doctor, audit and metrics over HTTP; readiness and the schema."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from actions.lease import Leader, record_tick
from cli.web_app import make_app
from models.database.engine import make_engine
from models.role import Role
from serving.limits import RequestLimits
from serving.services import Services
from telemetry import Event
from tests.database import write_by
from tests.integration.api.conftest import APP, OTHER, Web, make_settings
from tests.presence import give_sign, make_worker
from tests.scheduling import edit, get_now, make_document, make_operation, record_all

OURS, THEIRS = make_operation(0), make_operation(1)


@pytest.fixture(autouse=True)
def _busy(web: Web) -> None:
    """Give both apps an operation that runs, a leader that has ticked, and a worker."""
    engine = web.engine
    record_all(engine, OURS, THEIRS)
    for operation, app in ((OURS, APP), (THEIRS, OTHER)):
        claim = {"worker": "quick@host", "claim_token": operation.id}
        began = {"state": "running", "started_at": get_now(engine)}
        edit(engine, operation.id, app=app, **claim, **began)
    Leader(engine).hold()
    write_by(engine, record_tick, get_now(engine))
    give_sign(engine, make_worker("host", name="quick@host"))


def test_key_of_all_sees_the_installation(web: Web):
    """With hosts and processes; a small app may be asked for."""
    whole = web.get("/status", app=None, role=Role.VIEWER).json()
    part = web.get(f"/status?app={APP}", app=None, role=Role.VIEWER).json()

    assert {str(OURS.id), str(THEIRS.id)} == {each["id"] for each in whole["running"]}
    assert whole["leader"]["fence"] == 1
    assert whole["tick_age_s"] >= 0
    assert ["quick@host"] == [each["name"] for each in whole["processes"]]
    assert [str(OURS.id)] == [each["id"] for each in part["running"]]


@pytest.mark.parametrize("path", ["/workers", "/doctor"])
def test_what_is_of_the_installation_needs_its_key(web: Web, path: str):
    """Whoever may administer an app is told so."""
    answer = web.get(path, role=Role.ADMIN)

    assert 403 == answer.status_code
    assert "a key of the installation is needed" in answer.json()["detail"]


def test_doctor_is_asked_once_for_all(web: Web):
    """Whoever asks again within ten seconds is told what the broker said, and when."""
    first = web.get("/doctor", app=None, role=Role.VIEWER).json()
    second = web.get("/doctor", app=None, role=Role.VIEWER).json()

    asked, again = (
        next(each for each in answer["findings"] if each["subject"] == "broker")
        for answer in (first, second)
    )
    assert asked == again
    assert second["age_s"] > first["age_s"]
    found = {each["subject"]: each["health"] for each in first["findings"]}
    assert ("ok", "bad") == (found["leader"], found["broker"])
    assert "bad" == first["health"]


def test_audit_compares_the_actions_of_an_app(web: Web):
    """Of the caller's, and of no other."""
    for app in (APP, OTHER):
        web.post("/actions", make_document(), app=app)

    audits = [web.get("/audit", app=app).json() for app in (APP, None)]

    assert [(1, []), (2, [])] == [(e["audited"], e["faults"]) for e in audits]


def test_metrics_are_those_of_work(web: Web):
    """As Prometheus reads them, for keys of the installation."""
    keys = (web.keys[None, Role.VIEWER], web.keys[APP, Role.ADMIN])
    answer, refused = (
        web.client.get("/metrics", headers={"Authorization": f"Bearer {key}"})
        for key in keys
    )

    assert 200 == answer.status_code
    assert answer.headers["content-type"].startswith("text/plain")
    assert "minutehand_work_read 1.0" in answer.text
    assert (401, 403) == (web.client.get("/metrics").status_code, refused.status_code)


def test_readiness_is_told_to_anybody(web: Web):
    """Whoever balances load has no key."""
    answer = web.client.get("/readyz")

    assert (200, {"status": "ok"}) == (answer.status_code, answer.json())


def test_unready_server_lives(tmp_path: Path, engine: sa.Engine):
    """Without its database it says so, in words that name no host."""
    settings = make_settings(tmp_path, engine)
    away = make_engine("postgresql://Quser@127.0.0.1:1/Qname")
    services = Services(settings, away, RequestLimits(clock=lambda: 0.0))
    with TestClient(make_app(services)) as client:
        ready, live = client.get("/readyz"), client.get("/livez")

    assert (503, 200) == (ready.status_code, live.status_code)
    assert "5" == ready.headers["retry-after"]
    assert "does not answer" in ready.json()["detail"]
    assert "Q" not in ready.text
    assert "127.0.0.1" not in ready.text


def test_schema_is_given_to_anybody(web: Web):
    """An editor fetches it without a key."""
    answer = web.client.get("/schemas/scheduled-action")

    assert "application/schema+json" == answer.headers["content-type"]
    jsonschema.Draft202012Validator(answer.json()).validate(make_document())


def test_request_that_could_not_be_served_is_in_the_log(
    web: Web, tmp_path: Path, engine: sa.Engine
):
    """Under the id that its answer has, so that an operator finds why."""
    away = make_engine("postgresql://nobody@127.0.0.1:1/nothing")
    settings = make_settings(tmp_path, engine)
    services = Services(settings, away, RequestLimits(clock=lambda: 0.0))
    key = web.keys[None, Role.VIEWER]
    with TestClient(make_app(services)) as client, capture_logs() as logs:
        answer = client.get("/api/v1/apps", headers={"Authorization": f"Bearer {key}"})

    (line,) = [each for each in logs if each["event"] == Event.WEB_REQUEST_UNSERVED]
    assert answer.status_code == 503
    assert line["request_id"] == answer.headers["x-request-id"]
    assert line["route"] == "/api/v1/apps"
