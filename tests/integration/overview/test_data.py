"""What faces show of the data of a small app, on both databases."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from models.errors import NotFoundError
from models.paging import Page
from models.requests.apps import MoveRequestModel
from operations.publish_now import publish_now
from overview.data import (
    DataColumn,
    DetailedDomain,
    RetypedColumn,
    fetch_detailed_domain,
    fetch_domain_part,
)
from overview.installation.status import fetch_app_status
from tests.database import read_by, turn_pages, write_by
from tests.integration.operations.staging import READ_AT, add_domains, stage
from tests.presence import SETTINGS
from tests.scheduling import add_app, add_steps, get_now, put


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine) -> None:
    """Give every test an app with three domains."""
    add_domains(engine, "a", "b", "c")


def _publish(engine: sa.Engine, root: Path) -> None:
    write_by(engine, publish_now, "app", MoveRequestModel(data=True), workspace=root)


def _fetch(engine: sa.Engine, root: Path, name: str = "a") -> DetailedDomain:
    return read_by(engine, fetch_detailed_domain, "app", name, workspace=root)


def test_domains_have_their_versions(engine: sa.Engine, tmp_path: Path):
    """Staged, live and former, each with its size, and the source without its key."""
    for rows in (1, 2, 3):
        stage(engine, tmp_path, "a", {"n": list(range(rows))})
        if rows < 3:
            _publish(engine, tmp_path)

    found = read_by(engine, fetch_domain_part, "app", Page())

    a, b, _ = found.entries
    versions = (a.staged, a.live, a.former)
    assert [(3, 3), (2, 2), (1, 1)] == [
        (each.number, each.rows) for each in versions if each is not None
    ]
    assert a.staged is not None
    assert (READ_AT, "e") == (a.staged.created_at, a.staged.etag)
    assert a.staged.age.startswith("P")
    assert a.is_changed
    assert {"url": "https://example.com/a.csv?key=***"} == a.source
    assert (None, None, None, False) == (b.staged, b.live, b.former, b.is_changed)


def test_parts_are_the_whole(engine: sa.Engine):
    parts = turn_pages(lambda page: read_by(engine, fetch_domain_part, "app", page), 2)

    assert [["a", "b"], ["c"]] == [[each.name for each in part] for part in parts]


def test_difference_names_columns_and_types(engine: sa.Engine, tmp_path: Path):
    """What was added, removed and became of another type, and by how many rows."""
    stage(engine, tmp_path, "a", {"same": [1], "gone": ["x"], "other": [1]})
    _publish(engine, tmp_path)
    stage(engine, tmp_path, "a", {"same": [1, 2], "other": [0.5, 1], "new": [True] * 2})

    found = _fetch(engine, tmp_path)
    told = found.difference

    assert 1 == told.rows
    assert [DataColumn("new", "Boolean")] == told.added_columns
    assert [DataColumn("gone", "String")] == told.removed_columns
    assert [RetypedColumn("other", "Int64", "Float64")] == told.changed_columns
    sides = (found.staged_columns, found.live_columns)
    assert [["same", "other", "new"], ["same", "gone", "other"]] == [
        [column.name for column in side or ()] for side in sides
    ]


@pytest.mark.parametrize("broken", [None, b"", b"PAR1", b"\xff" * 12 + b"PAR1"])
def test_file_that_cannot_be_read_is_a_problem_and_no_error(
    engine: sa.Engine, tmp_path: Path, broken: bytes | None
):
    """Gone, as for a process without the workspace, or damaged: all else is shown."""
    stage(engine, tmp_path, "a", {"n": [1]})
    path = tmp_path / "app" / "a" / "1.parquet"
    if broken is None:
        path.unlink()
    else:
        path.write_bytes(broken)

    shown = _fetch(engine, tmp_path)

    assert shown.staged_columns is None
    assert shown.problem is not None
    assert shown.staged is not None
    assert str(tmp_path) not in shown.problem


def test_what_is_not_there_is_not_found(engine: sa.Engine, tmp_path: Path):
    with pytest.raises(NotFoundError, match="no domain 'z'"):
        _fetch(engine, tmp_path, "z")
    with pytest.raises(NotFoundError, match="no small"):
        read_by(engine, fetch_domain_part, "none", Page())


def add_step(engine: sa.Engine, number: int, name: str, result: dict[str, Any]) -> None:
    """Add an operation whose step *name* ended *number* minutes from now."""
    ended = get_now(engine) + timedelta(minutes=number)
    step = {"name": name, "state": "succeeded", "finished_at": ended, "result": result}
    add_steps(engine, put(engine, number), step)


@pytest.mark.parametrize(
    ("refreshed", "reused", "kind"),
    [(["a", "b"], [], "whole"), (["a"], ["b"], "partial"), ([], ["a", "b"], "reused")],
)
def test_status_says_what_the_last_ones_touched(
    engine: sa.Engine, refreshed: list[str], reused: list[str], kind: str
) -> None:
    """The latest of each; an app without any has none."""
    add_app(engine, "other")
    add_step(engine, 1, "refresh", {"refreshed": ["old"], "reused": []})
    add_step(engine, 2, "refresh", {"refreshed": refreshed, "reused": reused})
    add_step(engine, 3, "publish", {"published": ["data", "design"], "moved": []})

    found, others = (
        read_by(engine, fetch_app_status, SETTINGS, app).touched
        for app in ("app", "other")
    )

    last, moved = found["refresh"], found["publish"]
    assert (kind, refreshed, reused) == (last.kind, last.refreshed, last.reused)
    assert ("publish", ["data", "design"]) == (moved.kind, moved.published)
    assert {} == others
