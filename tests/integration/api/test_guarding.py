"""Who is let in, and what every answer of the HTTP API has."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
import sqlalchemy as sa

from api.openapi import COMMITTED
from models.database.tables import idempotency_keys
from models.role import Role
from tests.database import execute
from tests.integration.api.conftest import APP, Web
from tests.integration.api.documented import find_routes
from tests.integration.api.test_examples import send
from tests.scheduling import make_document


def test_nobody_gets_in_without_a_key(web: Web):
    """401 says how to send one."""
    answer = web.client.get(f"/api/v1/operations/{uuid4()}")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="minutehand"'
    assert "Authorization: Bearer" in answer.json()["detail"]
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_idempotency_key_is_of_one_request(web: Web):
    """Another body with the same key is a mistake, and is not done."""
    headers = {"Idempotency-Key": "mine"}
    web.post("/actions", make_document(), headers=headers)
    other = web.post("/actions", make_document(name="other"), headers=headers)

    assert other.status_code == 422
    assert other.json()["errors"][0]["parameter"] == "Idempotency-Key"


def test_repeat_comes_again_while_the_first_runs(web: Web):
    """Nobody does the work a second time meanwhile."""
    headers = {"Idempotency-Key": "mine"}
    web.post("/actions", make_document(), headers=headers)
    execute(web.engine, sa.update(idempotency_keys).values(status=None, body=None))

    again = web.post("/actions", make_document(), headers=headers)

    assert (409, "1") == (again.status_code, again.headers["retry-after"])
    assert "still running" in again.json()["detail"]


def test_refused_document_says_where(web: Web):
    """A problem has pointer, line, column, what was found and what to write."""
    answer = web.post(
        "/actions",
        headers={"Content-Type": "application/json"},
        content='{"name": "a",\n "when": {"cron_rule": "0 7 * * 9"},\n "operatons": 1}',
    )

    assert answer.status_code == 422
    rule, typo, missing = answer.json()["errors"]
    assert (rule["pointer"], rule["line"], rule["column"]) == ("/when/cron_rule", 2, 24)
    assert rule["found"] == "'0 7 * * 9'"
    assert typo["hint"].startswith("Did you mean 'operations'?")
    assert missing["found"] is None


#: What nothing of ours is called.
IMPOSSIBLE = (
    "../..",
    "a\0b",
    "\N{RIGHT-TO-LEFT OVERRIDE}\N{MANTELPIECE CLOCK}\n",
    "-1",
    "9" * 40,
    "a" * 300,
)


def test_impossible_path_is_the_mistake_of_its_caller(free_web: Web):
    """Each route of the document refuses it, also with the body of its example."""
    defects = []
    key = free_web.keys[None, Role.ADMIN]
    for route in find_routes():
        for each in route.parameters:
            for text in IMPOSSIBLE if each["in"] == "path" else ():
                sample = next(route.make_samples({"app": APP, each["name"]: text}))
                try:
                    send(free_web, sample, key)
                except Exception as error:  # noqa: BLE001 - a defect, which is 500
                    defects.append(f"{route} {each['name']}={text!r}: {error!r}")

    assert [] == defects


def test_body_has_bounds(web: Web):
    """What is too long, too deep or no JSON is refused; a form is no JSON."""
    kind = {"Content-Type": "application/json"}
    long = web.post("/actions", headers=kind, content=b" " * (1024 * 1024 + 1))
    deep = web.post("/actions", headers=kind, content="[" * 50_000)
    form = web.post("/actions", data={"name": "a"})

    assert (long.status_code, deep.status_code, form.status_code) == (413, 422, 415)
    assert "32 levels" in deep.json()["detail"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/sign-in"])
def test_head_is_answered_as_get_is(web: Web, path: str):
    """Without the body: those who watch a service ask so."""
    head, got = web.client.head(path), web.client.get(path)

    assert (got.status_code, b"") == (head.status_code, head.content)
    assert got.headers["content-length"] == head.headers["content-length"]


def test_reference_is_for_everybody_and_runs_nothing(web: Web):
    """
    No key; the policy lets a browser load nothing. Its document is the one that is
    committed, so that a client can be made from either.
    """
    page, document = web.client.get("/docs"), web.client.get("/openapi.json")

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].split("; ") == [
        "default-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "<code>PUT /api/v1/actions/{uid}</code></dt><dd>" in page.text
    assert document.json() == json.loads(COMMITTED.read_text())
