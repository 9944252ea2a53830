"""A folder that is applied: by two at once, and beside somebody's prune."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.posting.apply import AppliedFolder, Document, FileChange, apply_actions
from actions.posting.post import Posting
from models.database.tables import scheduled_actions
from models.door.documents import read_action_object
from models.errors import ConflictError
from tests.database import fetch_rows, race, write_by
from tests.scheduling import make_document, post

pytestmark = pytest.mark.usefixtures("small_app")


def make_documents(*names: str) -> list[Document]:
    return [
        Document(f"{name}.json", read_action_object(make_document(name=name)))
        for name in names
    ]


def apply_names(
    engine: sa.Engine, *names: str, may_prune: frozenset[str] | None = None
) -> AppliedFolder:
    return write_by(
        engine,
        apply_actions,
        "app",
        make_documents(*names),
        Posting(),
        prune=True if may_prune is None else may_prune,
    )


def test_two_at_once_are_one_after_the_other(engine: sa.Engine) -> None:
    """Whoever comes second finds what the first has left; nobody meets a conflict."""
    post(engine, name="old")

    found = race(4, lambda _number: apply_names(engine, "a", "b", "c"))

    assert [0, 0, 0, 3] == sorted(
        each.judge().counts[FileChange.CREATED] for each in found
    )
    assert [0, 0, 0, 1] == sorted(
        each.judge().counts[FileChange.PRUNED] for each in found
    )
    kept = scheduled_actions.c
    names = fetch_rows(
        engine, sa.select(kept.name, kept.revision).where(kept.deleted_at.is_(None))
    ).all()
    assert [("a", 1), ("b", 1), ("c", 1)] == sorted(map(tuple, names))


def test_what_nobody_has_seen_is_not_pruned(engine: sa.Engine) -> None:
    """An action that was posted since the question was asked is a conflict."""
    seen = post(engine, name="seen")
    post(engine, name="unseen")

    with pytest.raises(ConflictError, match="'unseen'"):
        apply_names(engine, "a", may_prune=frozenset({seen.uid}))

    gone = sa.select(sa.func.count()).where(scheduled_actions.c.deleted_at.is_not(None))
    assert 0 == fetch_rows(engine, gone).scalar_one()
