"""API keys over HTTP."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from models.database.tables import idempotency_keys
from tests.database import fetch_rows
from tests.integration.api.conftest import APP, Web


def status_with(web: Web, key: str) -> int:
    """Return how a request is answered that has this key; 404 is past the guard."""
    headers = {"Authorization": f"Bearer {key}"}
    return web.get(f"/operations/{'0' * 32}", headers=headers).status_code


def test_key_is_made_shown_once_and_taken(web: Web):
    """Its text is in one answer; lists show how it begins."""
    answer = web.post(
        "/keys", {"role": "operator", "name": "nightly", "expires": "P30D"}
    )
    made = answer.json()
    (shown,) = (
        each for each in web.get("/keys").json()["items"] if each["id"] == made["id"]
    )

    assert answer.status_code == 201
    assert {**shown, "key": made["key"]} == made
    assert (APP, "operator", "nightly") == (made["app"], made["role"], made["name"])
    assert made["created_by"] == f"admin of {APP}"
    assert made["key"].startswith(made["prefix"])
    assert status_with(web, made["key"]) == 404


@pytest.mark.parametrize(
    ("said", "life"), [({}, timedelta(days=90)), ({"expires": None}, None)]
)
def test_key_ends_unless_it_is_said_not_to(
    web: Web, said: dict[str, object], life: timedelta | None
):
    """As those do that commands and pages make."""
    made = web.post("/keys", {"role": "viewer", **said}).json()

    ends = made["expires_at"] and datetime.fromisoformat(made["expires_at"])
    assert life == (ends and ends - datetime.fromisoformat(made["created_at"]))


def test_secret_of_a_key_is_not_kept_for_repeats(web: Web):
    """The repeat is told that it was done, and makes no second key."""
    headers = {"Idempotency-Key": "mine"}
    made = web.post("/keys", {"role": "viewer"}, headers=headers)
    before = len(web.get("/keys").json()["items"])
    again = web.post("/keys", {"role": "viewer"}, headers=headers)
    rows = str(fetch_rows(web.engine, sa.select(idempotency_keys)).all())

    assert (201, 409) == (made.status_code, again.status_code)
    assert "a secret, which is shown once" in again.json()["detail"]
    assert made.json()["key"] not in rows
    assert len(web.get("/keys").json()["items"]) == before


def test_key_for_all_apps_must_be_asked_for(web: Web):
    """Who forgets the app does not make an admin of the installation."""
    forgotten = web.post("/keys", {"role": "admin"}, app=None)
    meant = web.post("/keys", {"role": "admin", "app": None}, app=None)

    assert forgotten.status_code == 422
    assert forgotten.json()["errors"][0]["pointer"] == "/app"
    assert (meant.status_code, meant.json()["app"]) == (201, None)
