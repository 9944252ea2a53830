"""Data over HTTP: shown, compared, refreshed, published, rolled back."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database.tables import domains
from models.role import Role
from tests.database import execute
from tests.integration.api.conftest import APP, OTHER, Web, make_settings
from tests.integration.operations.staging import fetch_pointers, stage
from tests.scheduling import edit, get, make_operation, record_all

HERE = f"/apps/{APP}"


@pytest.fixture(autouse=True)
def workspace(web: Web, tmp_path: Path) -> Path:
    """Give the folder of versions; each app has a domain of the same name."""
    sales = {"name": "sales", "source": {"url": "https://example.com/a?key=hunter2"}}
    rows = [{"app": app, **sales} for app in (APP, OTHER)]
    execute(web.engine, sa.insert(domains), rows)
    return make_settings(tmp_path, web.engine).workspace


def test_domains_are_shown_with_their_versions(web: Web, workspace: Path):
    """The list has versions, one domain its columns; no key of a source is shown."""
    stage(web.engine, workspace, "sales", {"n": [1, 2]}, APP)

    listed = web.get(f"{HERE}/domains", role=Role.VIEWER)
    read = web.get(f"{HERE}/domains/sales", role=Role.VIEWER)

    (domain,) = listed.json()["items"]
    assert {"version": 1, "rows": 2}.items() <= domain["staged"].items()
    assert domain["live"] is None
    assert [{"name": "n", "type": "Int64"}] == read.json()["staged_columns"]
    assert "hunter2" not in listed.text + read.text


def test_published_and_rolled_back(web: Web, workspace: Path):
    """And compared before: what is staged, against what is live."""
    stage(web.engine, workspace, "sales", {"n": [1]}, APP)
    first = web.post(f"{HERE}/data/publish", {"data": True}, role=Role.EDITOR)
    stage(web.engine, workspace, "sales", {"n": [1.5], "m": ["x"]}, APP)
    compared = web.get(f"{HERE}/domains/sales", role=Role.VIEWER).json()
    web.post(f"{HERE}/data/publish", {"data": True, "domains": ["sales"]})
    back = web.post(f"{HERE}/data/rollback", {"data": True}, role=Role.EDITOR)

    move = {"kind": "data", "name": "sales", "before": None, "after": 1}
    assert [move] == first.json()["moved"]
    assert [{"name": "m", "type": "String"}] == compared["difference"]["added_columns"]
    assert "Float64" == compared["difference"]["changed_columns"][0]["staged"]
    assert [{**move, "before": 2, "after": 1}] == back.json()["moved"]
    assert {"sales": (2, 1, 2)} == fetch_pointers(web.engine, APP)


def test_what_cannot_move_stays(web: Web, workspace: Path):
    """Nothing is staged, a refresh runs, nothing is asked for, no such domain."""
    nothing = web.post(f"{HERE}/data/publish", {"data": True})
    stage(web.engine, workspace, "sales", {"n": [1]}, APP)
    heavy = make_operation(app=APP, queue="heavy")
    (operation_id,) = record_all(web.engine, heavy)
    edit(web.engine, operation_id, state="running", claim_token=operation_id)
    busy = web.post(f"{HERE}/data/publish", {"data": True})
    edit(web.engine, operation_id, state="succeeded", claim_token=None)
    empty = web.post(f"{HERE}/data/publish", {})
    unasked = web.post(f"{HERE}/data/publish", {"design": True, "domains": ["sales"]})
    unknown = web.post(f"{HERE}/data/publish", {"data": True, "domains": ["x"]})

    assert [409, 409, 422, 422, 404] == [
        each.status_code for each in (nothing, busy, empty, unasked, unknown)
    ]
    assert "succeeded" == get(web.engine, operation_id).state
    assert {"sales": (1, None, None)} == fetch_pointers(web.engine, APP)
