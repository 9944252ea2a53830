"""Users and groups of a small app over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from api.answers import ROOT
from models.database.tables import events
from models.role import Role
from tests.database import fetch_rows
from tests.integration.api.conftest import APP, Web

USERS = f"/apps/{APP}/users"
ADA = {"email": "ada@example.com", "name": "Ada", "groups": ["boss"]}


def _ids(answer: Any) -> list[str]:
    return [each["id"] for each in answer.json()["items"]]


def test_user_is_put_patched_and_deleted(web: Web):
    """Each answer has the tag that the next change must name."""
    made = web.put(f"{USERS}/bob", ADA, headers={"If-Match": '""'}, role=Role.EDITOR)
    tag = made.headers["etag"]
    patched = web.patch(
        f"{USERS}/bob",
        headers={"If-Match": tag, "Content-Type": "application/merge-patch+json"},
        content='{"name": null, "disabled": true}',
    )
    stale = web.put(f"{USERS}/bob", ADA, headers={"If-Match": tag})
    read = web.get(f"{USERS}/bob")
    deleted = web.delete(f"{USERS}/bob", headers={"If-Match": read.headers["etag"]})

    assert (201, f"/api/v1{USERS}/bob") == (made.status_code, made.headers["location"])
    assert (None, True, ["boss"]) == tuple(
        patched.json()[name] for name in ("name", "disabled", "groups")
    )
    assert patched.json() == read.json()
    assert (412, patched.headers["etag"]) == (stale.status_code, stale.headers["etag"])
    assert 204 == deleted.status_code
    assert 404 == web.get(f"{USERS}/bob").status_code


@pytest.mark.parametrize("user_id", ["50%", "ünï/members/x"])
def test_any_id_has_an_address(web: Web, user_id: str):
    """Whatever characters it has."""
    path = f"{USERS}/{quote(user_id, safe='')}"

    made = web.put(path, {})

    assert (201, user_id) == (made.status_code, made.json()["id"])
    assert user_id == web.get(path).json()["id"]
    located = web.get(made.headers["location"].removeprefix(ROOT))
    assert user_id == located.json()["id"]


def test_directory_replaces_all_users(web: Web):
    """First as a dry run; who is not in it is removed."""
    directory = {"users": [{"id": "ada", "disabled": True}, {"id": "new"}]}

    told = web.put(f"{USERS}?dry_run=true", directory)
    before = _ids(web.get(USERS))
    done = web.put(USERS, directory, headers={"If-Match": told.headers["etag"]})
    again = web.put(USERS, directory, headers={"If-Match": told.headers["etag"]})

    counts = {"added": 1, "changed": 1, "removed": 1}
    assert counts == told.json()["counts"]["users"] == done.json()["parts"]["users"]
    assert ["ada", "zoe"] == before
    assert ["ada", "new"] == _ids(web.get(USERS))
    assert 412 == again.status_code


def test_large_directory_is_taken(web: Web):
    """More than other bodies may have, up to 32 MiB."""
    users = [{"id": f"u{n}", "name": "x" * 150} for n in range(10_000)]

    done = web.put(USERS, {"users": users})

    assert {"added": 10_000, "changed": 0, "removed": 2} == done.json()["parts"][
        "users"
    ]


def test_events_are_raised_when_asked_for(web: Web):
    """By any change of users; not by default."""
    seen = {"last_seen_at": "2026-01-01T00:00:00Z"}
    count = sa.select(sa.func.count()).select_from(events)
    web.put(f"{USERS}/ada", seen)
    assert 0 == fetch_rows(web.engine, count).scalar_one()

    web.put(f"{USERS}/bob?events=true", seen)
    web.patch(f"{USERS}/zoe?events=true", seen)
    web.put(f"{USERS}?events=true", {"users": [{"id": "new"}]})

    assert 4 == fetch_rows(web.engine, count).scalar_one()
