"""An action is found by its uid, or else by its name."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.lookup import find_action
from models.errors import ConflictError, NotFoundError
from tests.database import read_by
from tests.scheduling import add_app, edit_action, get_now, post


@pytest.mark.parametrize(
    ("given", "app", "found"),
    [
        ("first", None, "first"),
        ("other", "shop", "second"),
        ("first", "shop", "named-as-first"),
        ("gone", None, "gone"),  # nobody else is called so
        ("lost", None, "heir"),
        ("other", None, ConflictError),
        ("gone", "shop", NotFoundError),
        ("nobody", None, NotFoundError),
    ],
)
def test_uid_counts_more_than_a_name(
    engine: sa.Engine, given: str, app: str | None, found: str | type[Exception]
):
    """And what is left counts more than what was deleted."""
    add_app(engine)
    add_app(engine, "shop")
    for uid, name, owner in (
        *(("first", "other", "app"), ("second", "other", "shop")),
        *(("named-as-first", "first", "shop"), ("heir", "lost", "app")),
        *(("gone", "x", "app"), ("lost", "y", "app")),
    ):
        post(engine, owner, uid=uid, name=name)
    for uid in ("gone", "lost"):
        edit_action(engine, uid, deleted_at=get_now(engine))

    if isinstance(found, str):
        assert found == read_by(engine, find_action, given, app=app).uid
    else:
        with pytest.raises(found):
            read_by(engine, find_action, given, app=app)
