"""The record of changes over HTTP."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from models.database.engine import Author, writing
from models.database.journal import note_change
from models.database.tables import change_head, changes
from tests.integration.api.conftest import APP, OTHER, Web


def note(web: Web, subject: str, app: str | None = APP, by: str = "ada") -> None:
    with writing(web.engine, author=Author(by)) as connection:
        note_change(connection, "action", subject, "posted", app=app)


@pytest.fixture
def web(web: Web) -> Web:
    """Give the API and a record of nothing but three changes."""
    with writing(web.engine) as connection:
        connection.execute(sa.delete(changes))
        connection.execute(sa.update(change_head).values(number=0, hash="0" * 64))
    for number, app in enumerate((APP, OTHER, None)):
        note(web, f"a{number}", app, by=f"ada{number}")
    return web


def subjects(web: Web, query: str = "", app: str | None = None) -> list[str]:
    answer = web.get(f"/changes{query}", app=app)
    assert answer.status_code == 200, answer.text
    return [each["subject"] for each in answer.json()["items"]]


def test_list_is_filtered_and_scoped(web: Web):
    """The latest first; a key of an app sees what was changed in it."""
    assert subjects(web) == ["a2", "a1", "a0"]
    assert subjects(web, app=APP) == ["a0"]
    assert subjects(web, f"?app={OTHER}") == ["a1"]
    assert subjects(web, "?by=ada1&kind=action&subject=a1") == ["a1"]
    assert subjects(web, "?from=2100-01-01T00:00Z") == []
    assert subjects(web, "?until=2100-01-01T00:00Z") == ["a2", "a1", "a0"]
    assert web.get(f"/changes?app={OTHER}").status_code == 404


def test_export_has_a_change_on_each_line(web: Web):
    """The first one first, with the same filters and scope as the list."""
    for number in range(3, 6):
        note(web, f"a{number}")
    with writing(web.engine) as connection:
        for number in range(450):
            note_change(connection, "user", f"{number}", "posted", app=APP)
    answer = web.get("/changes/export", app=None)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    scoped = web.get("/changes/export?kind=action").text.splitlines()

    assert answer.headers["content-type"].startswith("application/jsonl")
    assert [*range(1, 457)] == [line["number"] for line in lines]
    assert ["a0", "a3", "a4", "a5"] == [json.loads(line)["subject"] for line in scoped]
    assert lines[1]["previous_hash"] == lines[0]["hash"]
