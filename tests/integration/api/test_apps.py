"""Small apps over HTTP: list, read, apply, compare, export, delete, pause."""

from __future__ import annotations

from typing import Any

import pytest

from models.role import Role
from tests.integration.api.conftest import APP, Web

SECRET = "https://example.com/a.csv?key=hunter2"
DOCUMENT: dict[str, Any] = {
    "name": "Shop",
    "timezone": "Europe/Paris",
    "users": [{"id": "ada", "email": "ada@example.com", "groups": ["manager"]}],
    "domains": [{"name": "sales", "source": {"url": SECRET}}],
    "templates": {"t": {"subject": "Hello", "text": "Hello"}},
}


def _if(tag: object) -> dict[str, str]:
    return {"If-Match": f'"{tag}"'}


def test_document_is_applied_read_and_exported(web: Web):
    """The ETag follows the revision; the export applied again changes nothing."""
    applied = web.put(f"/apps/{APP}", DOCUMENT, role=Role.EDITOR)
    read = web.get(f"/apps/{APP}", role=Role.VIEWER)
    exported = web.get(f"/apps/{APP}/document", role=Role.EDITOR)
    again = web.put(f"/apps/{APP}", exported.json(), headers=_if(2), role=Role.EDITOR)

    assert (200, '"2"') == (applied.status_code, applied.headers["etag"])
    assert 2 == applied.json()["revision"]
    assert ("Shop", '"2"') == (read.json()["name"], read.headers["etag"])
    assert SECRET == exported.json()["domains"][0]["source"]["url"]
    assert "hunter2" not in read.text
    assert (200, '"2"') == (again.status_code, again.headers["etag"])


def test_dry_run_tells_the_difference(web: Web):
    """And changes nothing."""
    told = web.put(f"/apps/{APP}?dry_run=true", DOCUMENT)

    assert 200 == told.status_code
    assert '"1"' == told.headers["etag"]
    assert {"added": 0, "changed": 1, "removed": 1} == told.json()["counts"]["users"]
    assert {"part": "users", "name": "zoe", "change": "removed", "pointers": []} in (
        told.json()["entries"]
    )
    assert "hunter2" not in told.text
    assert APP == web.get(f"/apps/{APP}").json()["name"]


def test_keys_of_the_installation_make_apps(web: Web):
    """201 and where it is; "0" says that there was none before."""
    made = web.put("/apps/new", DOCUMENT, app=None, headers=_if(0))
    again = web.put("/apps/new", DOCUMENT, app=None, headers=_if(0))

    assert (201, "/api/v1/apps/new") == (made.status_code, made.headers["location"])
    assert 412 == again.status_code


def test_typo_is_told_with_its_line(web: Web):
    """A typo with its line; a connection that there is not is a doubt."""
    typo = web.ask(
        "PUT",
        f"/apps/{APP}",
        headers={"Content-Type": "application/json"},
        content='{"name": "a",\n "timezon": "UTC"}',
    )
    sql = {"sql": "select 1", "connection": "warehouse"}
    doubted = web.put(f"/apps/{APP}", {"domains": [{"name": "a", "source": sql}]})

    (found,) = typo.json()["errors"]
    assert (422, "/timezon", 2) == (typo.status_code, found["pointer"], found["line"])
    assert "Did you mean 'timezone'" in found["hint"]
    assert "warehouse" in doubted.json()["warnings"][0]


@pytest.mark.parametrize("path", [f"/apps/{APP}/pause", "/pause"])
def test_pause_is_begun_and_ended(web: Web, path: str):
    """Its tag tells whether it is still the one that was read."""
    pause = {"note": "import", "until": "2099-01-01T00:00:00Z"}

    paused = web.put(path, pause, app=None, role=Role.OPERATOR, headers=_if("none"))
    stale = web.delete(path, app=None, headers=_if("none"))
    resumed = web.delete(
        path, app=None, role=Role.OPERATOR, headers={"If-Match": paused.headers["etag"]}
    )
    twice = web.delete(path, app=None)

    assert pause.items() <= paused.json()["pause"].items()
    assert [412, 200, 409] == [a.status_code for a in (stale, resumed, twice)]
