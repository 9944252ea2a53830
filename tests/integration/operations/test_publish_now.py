"""Data and documents are published and rolled back at once, by moving pointers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from models.database.engine import Author, writing
from models.errors import ConflictError, NotFoundError
from models.operation_state import Queue
from models.requests.apps import MoveRequestModel
from operations.domains import Move
from operations.publish_now import Moved, publish_now, roll_back_now
from tests.integration.operations.staging import (
    add_domains,
    apply_document,
    fetch_live,
    fetch_pointers,
    stage,
)
from tests.scheduling import edit, fetch_noted, put

ROWS = {"n": [1, 2]}


@dataclass
class App:
    """An app with the staged domains a and b, and a document; ann moves them."""

    engine: sa.Engine
    root: Path

    def stage(self, name: str, app: str = "app") -> None:
        """Stage another version of a domain."""
        stage(self.engine, self.root, name, ROWS, app)

    def publish(self, *kinds: str, **which: object) -> tuple[Move, ...]:
        """Publish these kinds; return what moved."""
        return self._do(publish_now, kinds, which)

    def roll_back(self, *kinds: str, **which: object) -> tuple[Move, ...]:
        """Roll these kinds back; return what moved."""
        return self._do(roll_back_now, kinds, which)

    def _do(
        self,
        move: Callable[..., Moved],
        kinds: tuple[str, ...],
        which: dict[str, object],
    ) -> tuple[Move, ...]:
        asked: dict[str, object] = {**dict.fromkeys(kinds, True), **which}
        wanted = MoveRequestModel.model_validate(asked)
        with writing(self.engine, author=Author("ann")) as connection:
            return move(connection, "app", wanted, workspace=self.root).moves


@pytest.fixture
def app(engine: sa.Engine, tmp_path: Path) -> App:
    """Give the app; another has a domain of the same name."""
    made = App(engine, tmp_path)
    add_domains(engine, "a", "b")
    add_domains(engine, "a", app="other")
    for name in "ab":
        made.stage(name)
    made.stage("a", "other")
    apply_document(engine, "design", "first")
    return made


def test_what_is_staged_becomes_live(engine: sa.Engine, app: App):
    """All of it at once; a second time moves nothing; other apps stay as they are."""
    moved = app.publish("data", "design")
    again = app.publish("data", "design")

    assert [
        ("data", "a", None, 1),
        ("data", "b", None, 1),
        ("design", "design", None, None),
    ] == [astuple(each) for each in moved]
    assert () == again
    assert {"a": (1, 1, None), "b": (1, 1, None)} == fetch_pointers(engine)
    assert {"a": (1, None, None)} == fetch_pointers(engine, "other")
    assert "first" == fetch_live(engine, "design")


def test_rolling_back_is_the_same_move(engine: sa.Engine, app: App):
    """What was live before is live again; once more, and it is as it was."""
    app.publish("data", "design")
    app.stage("a")
    apply_document(engine, "design", "second")
    app.publish("data", "design")

    moved = app.roll_back("data", "design")

    assert [("a", 2, 1), ("design", None, None)] == [
        (move.name, move.before, move.after) for move in moved
    ]
    assert {"a": (2, 1, 2), "b": (1, 1, None)} == fetch_pointers(engine)
    assert "first" == fetch_live(engine, "design")
    app.roll_back("data", "design", domains=["a"])
    assert {"a": (2, 2, 1), "b": (1, 1, None)} == fetch_pointers(engine)
    assert "second" == fetch_live(engine, "design")


@pytest.mark.parametrize("state", ["queued", "running", "canceled"])
def test_heavy_operation_under_way_prevents_it(engine: sa.Engine, app: App, state: str):
    """At most one works on the data of an app; the message names it."""
    token = None if state == "queued" else uuid4()
    operation_id = put(engine, queue=Queue.HEAVY, state=state, claim_token=token)

    with pytest.raises(ConflictError, match=str(operation_id)):
        app.publish("data")
    with pytest.raises(ConflictError, match=str(operation_id)):
        app.roll_back("data")

    edit(engine, operation_id, state="succeeded", claim_token=None)
    assert app.publish("data")


def test_all_kinds_move_or_none(engine: sa.Engine, app: App):
    """One of which nothing is staged, or to go back to, keeps the others."""
    with pytest.raises(ConflictError, match="nothing staged for permissions"):
        app.publish("data", "design", "permissions")
    with pytest.raises(ConflictError, match="nothing to go back to for data"):
        app.roll_back("data")

    assert {"a": (1, None, None), "b": (1, None, None)} == fetch_pointers(engine)
    assert fetch_live(engine, "design") is None


def test_version_whose_file_is_gone_is_not_published(engine: sa.Engine, app: App):
    """Before any pointer moves: that of the other domain stays, too."""
    (app.root / "app" / "b" / "1.parquet").unlink()

    with pytest.raises(ConflictError, match="version 1 of domain 'b' is gone"):
        app.publish("data")

    assert {"a": (1, None, None), "b": (1, None, None)} == fetch_pointers(engine)
    assert app.publish("data", domains=["a"])


def test_unknown_domain_is_not_found(engine: sa.Engine, app: App):
    """Nothing else moves."""
    with pytest.raises(NotFoundError, match="no domain 'c'"):
        app.publish("data", domains=["a", "c"])

    assert {"a": (1, None, None), "b": (1, None, None)} == fetch_pointers(engine)


def test_moves_are_noted(engine: sa.Engine, app: App):
    """With the versions; what moved nothing is no change."""
    for _ in range(2):
        app.publish("data", domains=["a"])

    (row,) = fetch_noted(engine, "data")
    assert ("app", "published", "ann") == (row.subject, row.change, row.by)
    assert ({"data/a": None}, {"data/a": 1}) == (row.before, row.after)


@pytest.mark.parametrize("expected", [{"a": 1}, {"b": 2}, {"a": 2, "b": 1}])
def test_versions_that_nobody_has_seen_stay_staged(
    engine: sa.Engine, app: App, expected: dict[str, int]
):
    """Such as one that was staged after somebody looked; nothing moves at all."""
    app.stage("a")

    with pytest.raises(ConflictError, match="was expected"):
        app.publish("data", domains=["a"], expected=expected)

    assert {"a": (2, None, None), "b": (1, None, None)} == fetch_pointers(engine)


def test_versions_that_were_seen_move(app: App):
    """Forth, and back."""
    app.publish("data")
    app.stage("a")
    names, seen = ["a"], {"a": 2}

    (forth,) = app.publish("data", domains=names, expected=seen)
    with pytest.raises(ConflictError, match="version 1 of domain 'a'"):
        app.roll_back("data", domains=names, expected=seen)
    (back,) = app.roll_back("data", domains=["a"], expected={"a": 1})

    assert [(1, 2), (2, 1)] == [(each.before, each.after) for each in (forth, back)]
