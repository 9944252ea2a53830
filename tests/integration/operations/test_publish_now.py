"""Data and documents are published and rolled back at once, by moving pointers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database.engine import Author, writing
from models.database.tables import changes
from models.errors import ConflictError, NotFoundError
from models.operation_state import Queue
from models.requests.apps import MoveRequestModel
from operations.publish_now import Moved, publish_now, roll_back_now
from tests.database import fetch_rows
from tests.integration.operations.staging import (
    add_domains,
    apply_document,
    fetch_live,
    fetch_pointers,
    stage,
)
from tests.scheduling import edit, make_operation, record_all

ROWS = {"n": [1, 2]}


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine, tmp_path: Path) -> None:
    """Give every test an app with two staged domains and a document."""
    add_domains(engine, "a", "b")
    add_domains(engine, "a", app="other")
    for name in "ab":
        stage(engine, tmp_path, name, ROWS)
    stage(engine, tmp_path, "a", ROWS, "other")
    apply_document(engine, "design", "first")


def _want(
    kinds: tuple[str, ...], names: list[str] | None, expected: dict[str, int] | None
) -> MoveRequestModel:
    asked = dict.fromkeys(kinds, True)
    given = {**asked, "domains": names, "expected": expected}
    return MoveRequestModel.model_validate(given)


def _moving(move: Callable[..., Moved]) -> Callable[..., Moved]:
    """Return what moves these kinds of the app's data by *move*, as ann."""

    def do(
        engine: sa.Engine,
        root: Path,
        *kinds: str,
        names: list[str] | None = None,
        expected: dict[str, int] | None = None,
    ) -> Moved:
        wanted = _want(kinds, names, expected)
        with writing(engine, author=Author("ann")) as connection:
            return move(connection, "app", wanted, workspace=root)

    return do


_publish, _roll_back = _moving(publish_now), _moving(roll_back_now)


def test_what_is_staged_becomes_live(engine: sa.Engine, tmp_path: Path):
    """All of it at once; a second time moves nothing; other apps stay as they are."""
    moved = _publish(engine, tmp_path, "data", "design")
    again = _publish(engine, tmp_path, "data", "design")

    assert [
        ("data", "a", None, 1),
        ("data", "b", None, 1),
        ("design", "design", None, None),
    ] == [astuple(each) for each in moved.moves]
    assert () == again.moves
    assert {"a": (1, 1, None), "b": (1, 1, None)} == fetch_pointers(engine)
    assert {"a": (1, None, None)} == fetch_pointers(engine, "other")
    assert "first" == fetch_live(engine, "design")


def test_rolling_back_is_the_same_move(engine: sa.Engine, tmp_path: Path):
    """What was live before is live again; once more, and it is as it was."""
    _publish(engine, tmp_path, "data", "design")
    stage(engine, tmp_path, "a", ROWS)
    apply_document(engine, "design", "second")
    _publish(engine, tmp_path, "data", "design")

    moved = _roll_back(engine, tmp_path, "data", "design")

    assert [("a", 2, 1), ("design", None, None)] == [
        (move.name, move.before, move.after) for move in moved.moves
    ]
    assert {"a": (2, 1, 2), "b": (1, 1, None)} == fetch_pointers(engine)
    assert "first" == fetch_live(engine, "design")
    _roll_back(engine, tmp_path, "data", "design", names=["a"])
    assert {"a": (2, 2, 1), "b": (1, 1, None)} == fetch_pointers(engine)
    assert "second" == fetch_live(engine, "design")


@pytest.mark.parametrize("state", ["queued", "running", "canceled"])
def test_heavy_operation_under_way_prevents_it(
    engine: sa.Engine, tmp_path: Path, state: str
):
    """At most one works on the data of an app; the message names it."""
    heavy = make_operation(queue=Queue.HEAVY)
    (operation_id,) = record_all(engine, heavy)
    token = None if state == "queued" else operation_id
    edit(engine, operation_id, state=state, claim_token=token)

    with pytest.raises(ConflictError, match=str(operation_id)):
        _publish(engine, tmp_path, "data")
    with pytest.raises(ConflictError, match=str(operation_id)):
        _roll_back(engine, tmp_path, "data")

    edit(engine, operation_id, state="succeeded", claim_token=None)
    assert _publish(engine, tmp_path, "data").moves


def test_all_kinds_move_or_none(engine: sa.Engine, tmp_path: Path):
    """One of which nothing is staged, or to go back to, keeps the others."""
    with pytest.raises(ConflictError, match="nothing staged for permissions"):
        _publish(engine, tmp_path, "data", "design", "permissions")
    with pytest.raises(ConflictError, match="nothing to go back to for data"):
        _roll_back(engine, tmp_path, "data")

    assert {"a": (1, None, None), "b": (1, None, None)} == fetch_pointers(engine)
    assert fetch_live(engine, "design") is None


def test_version_whose_file_is_gone_is_not_published(engine: sa.Engine, tmp_path: Path):
    """Before any pointer moves: that of the other domain stays, too."""
    (tmp_path / "app" / "b" / "1.parquet").unlink()

    with pytest.raises(ConflictError, match="version 1 of domain 'b' is gone"):
        _publish(engine, tmp_path, "data")

    assert {"a": (1, None, None), "b": (1, None, None)} == fetch_pointers(engine)
    assert _publish(engine, tmp_path, "data", names=["a"]).moves


def test_unknown_domain_is_not_found(engine: sa.Engine, tmp_path: Path):
    """Nothing else moves."""
    with pytest.raises(NotFoundError, match="no domain 'c'"):
        _publish(engine, tmp_path, "data", names=["a", "c"])

    assert {"a": (1, None, None), "b": (1, None, None)} == fetch_pointers(engine)


def test_moves_are_noted(engine: sa.Engine, tmp_path: Path):
    """With the versions; what moved nothing is no change."""
    for _ in range(2):
        _publish(engine, tmp_path, "data", names=["a"])

    (row,) = fetch_rows(engine, sa.select(changes)).all()
    assert ("data", "app", "published", "ann") == (
        row.kind,
        row.subject,
        row.change,
        row.by,
    )
    assert ({"data/a": None}, {"data/a": 1}) == (row.before, row.after)


@pytest.mark.parametrize("expected", [{"a": 1}, {"b": 2}, {"a": 2, "b": 1}])
def test_versions_that_nobody_has_seen_stay_staged(
    engine: sa.Engine, tmp_path: Path, expected: dict[str, int]
):
    """Such as one that was staged after somebody looked; nothing moves at all."""
    stage(engine, tmp_path, "a", ROWS)

    with pytest.raises(ConflictError, match="was expected"):
        _publish(engine, tmp_path, "data", names=["a"], expected=expected)

    assert {"a": (2, None, None), "b": (1, None, None)} == fetch_pointers(engine)


def test_versions_that_were_seen_move(engine: sa.Engine, tmp_path: Path):
    """Forth, and back."""
    _publish(engine, tmp_path, "data")
    stage(engine, tmp_path, "a", ROWS)
    names, seen = ["a"], {"a": 2}

    (forth,) = _publish(engine, tmp_path, "data", names=names, expected=seen).moves
    with pytest.raises(ConflictError, match="version 1 of domain 'a'"):
        _roll_back(engine, tmp_path, "data", names=names, expected=seen)
    (back,) = _roll_back(engine, tmp_path, "data", names=["a"], expected={"a": 1}).moves

    assert [(1, 2), (2, 1)] == [(each.before, each.after) for each in (forth, back)]
