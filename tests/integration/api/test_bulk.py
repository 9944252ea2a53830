"""Bulk changes over HTTP: counted, begun, followed, canceled."""

from __future__ import annotations

import threading
from typing import Any

from tests.integration.api.conftest import APP, OTHER, Web
from tests.scheduling import fetch_action, post


def post_many(web: Web, count: int, app: str = APP) -> None:
    for number in range(count):
        post(web.engine, app, name=f"{app} {number}", uid=f"{app}-{number}")


def pause_all(web: Web, count: int, **options: Any) -> Any:
    body = {"kind": "pause", "filter": {}, "expected_count": count, "note": "moving"}
    return web.post("/bulk", body, **options)


def follow(web: Web, path: str) -> Any:
    """Ask until it is over; return what it is then."""
    tired = threading.Event()
    for _ in range(600):
        shown = web.get(path).json()
        if shown["finished_at"] is not None:
            return shown
        tired.wait(0.05)
    return shown


def test_it_is_counted_begun_and_followed(web: Web):
    """202 says where its progress is; the web process itself does the work."""
    post_many(web, 3)
    post_many(web, 2, OTHER)
    counted = web.post("/bulk", {"kind": "pause", "filter": {}, "dry_run": True})

    begun = pause_all(web, counted.json()["matched"])

    assert counted.status_code == 200
    assert {"matched": 3, "by_app": {APP: 3}}.items() <= counted.json().items()
    assert begun.status_code == 202
    assert begun.headers["location"] == f"/api/v1/bulk/{begun.json()['id']}"
    shown = follow(web, f"/bulk/{begun.json()['id']}")
    expected = {"state": "finished", "total": 3, "done": 3, "refused": {}}
    assert expected.items() <= shown.items()
    assert "moving" == fetch_action(web.engine, f"{APP}-0").pause_note
    assert fetch_action(web.engine, f"{OTHER}-0").paused_at is None


def test_what_is_over_cannot_be_canceled(web: Web):
    """It says so."""
    begun = pause_all(web, 0).json()["id"]
    follow(web, f"/bulk/{begun}")

    answer = web.post(f"/bulk/{begun}/cancel")

    assert answer.status_code == 409
    assert "already over" in answer.json()["detail"]
