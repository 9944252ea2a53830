"""Runs, past and to come, pauses and recipients of an action over HTTP."""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa

from api.answers import ROOT
from models.database.tables import changes, idempotency_keys
from tests.database import execute, fetch_rows
from tests.integration.api.conftest import APP, Web
from tests.integration.api.test_actions import create
from tests.scheduling import REFRESH

BOTH = {**REFRESH, "publish": {"data": True}}
MAIL = {"send_email": {"template": "t"}}


def test_run_is_recorded_and_can_be_read(web: Web):
    """202 with the place of the operation; a repeat of the request is the same run."""
    uid = create(web, operations=BOTH)
    headers = {"Idempotency-Key": str(uuid4())}
    body = {"steps": ["publish"], "note": "mended", "force": True}

    first = web.post(f"/actions/{uid}/runs", body, headers=headers)
    again = web.post(f"/actions/{uid}/runs", body, headers=headers)

    assert (202, 202) == (first.status_code, again.status_code)
    assert first.json() == again.json()
    read = web.get(first.headers["location"].removeprefix(ROOT)).json()
    assert {"steps": ["publish"], "note": "mended", "force": True} == read["details"]
    assert {"refresh": "skipped", "publish": "pending"} == {
        step["name"]: step["state"] for step in read["steps"]
    }
    ran = sa.select(changes).where(changes.c.change == "run")
    noted = fetch_rows(web.engine, ran).one()
    assert (f"admin of {APP}", "mended", uid) == (noted.by, noted.note, noted.subject)
    assert noted.request_id == first.headers["x-request-id"]


def test_run_whose_answer_got_lost_is_not_run_twice(web: Web):
    """The server was killed after the commit: no answer is kept for the key."""
    uid = create(web, operations=MAIL, overlap="queue")
    headers = {"Idempotency-Key": "monthly"}

    def run(body: dict[str, object]) -> str:
        answer = web.post(f"/actions/{uid}/runs", body, headers=headers)
        assert 202 == answer.status_code
        execute(web.engine, sa.delete(idempotency_keys))
        return str(answer.json()["id"])

    first = run({"note": "end of month"})

    assert first == run({"note": "end of month"})
    assert first != run({"note": "another"})


def test_run_beside_another_is_refused(web: Web):
    """If its overlap is skip; a dry run says so before."""
    uid = create(web, operations=BOTH)
    operation = web.post(f"/actions/{uid}/runs").json()["id"]

    foreseen = web.post(f"/actions/{uid}/runs?dry_run=true", {"steps": ["refresh"]})
    refused = web.post(f"/actions/{uid}/runs")

    assert (200, 409) == (foreseen.status_code, refused.status_code)
    assert [operation] == foreseen.json()["refused_by"]
    assert ["pending", "skipped"] == [s["state"] for s in foreseen.json()["steps"]]


def test_recipients_are_told_why(web: Web):
    """Each user of the app, in or out."""
    uid = create(web, operations=MAIL, recipients={"users": ["ada", "eve"]})

    found = web.get(f"/actions/{uid}/recipients").json()
    inside = web.get(f"/actions/{uid}/recipients?is_in=true").json()

    assert [("ada", True), ("zoe", False)] == [
        (each["user"], each["is_in"]) for each in found["items"]
    ]
    assert (1, False) == (found["count"], found["on_event"])
    assert ["/recipients/users/1"] == [each["pointer"] for each in found["unknown"]]
    assert ["ada"] == [each["user"] for each in inside["items"]]


def test_why_has_an_answer_for_every_minute(web: Web):
    """Before the action was posted, and in years."""
    uid = create(web)

    def ask(at: str) -> str:
        (answer,) = web.get(f"/actions/{uid}/why?at={at}").json()["items"]
        verdict: str = answer["verdict"]
        return verdict

    assert "not effective yet" == ask("2020-01-01T07:00:00Z")
    assert "will run" == ask("2035-01-01T07:00:00Z")
    assert "not due" == ask("2035-01-01T07:01:00Z")
    assert "will run" == ask("2035-01-01T07:00")  # by the clock of the rule
    assert ["will run"] == [
        each["verdict"] for each in web.get(f"/actions/{uid}/why").json()["items"]
    ]


def test_occurrences_are_of_a_period(web: Web):
    """By default those of the next days."""
    path = f"/actions/{create(web)}/occurrences"
    period = "from=2036-01-01T00:00:00Z&until=2036-01-03T00:00:00Z"

    coming, asked = (web.get(f"{path}{query}").json() for query in ("", f"?{period}"))

    assert (7, 2) == (len(coming["items"]), len(asked["items"]))
    assert 400 == web.get(f"{path}?{period.replace('2036', '2026', 1)}").status_code
