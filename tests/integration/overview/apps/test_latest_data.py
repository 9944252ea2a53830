"""What the latest refresh and publish of a small app touched."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import reading, writing
from models.database.tables import operation_steps
from overview.installation.status import fetch_app_status
from tests.presence import SETTINGS
from tests.scheduling import add_app, get_now, make_operation, record_all


def add_step(engine: sa.Engine, number: int, name: str, result: dict[str, Any]) -> None:
    """Add an operation whose step *name* ended *number* minutes from now."""
    operation = make_operation(number)
    record_all(engine, operation)
    ended = get_now(engine) + timedelta(minutes=number)
    with writing(engine) as connection:
        connection.execute(
            sa.insert(operation_steps).values(
                operation_id=operation.id,
                position=0,
                name=name,
                state="succeeded",
                attempt=1,
                finished_at=ended,
                result=result,
            )
        )


@pytest.mark.parametrize(
    ("refreshed", "reused", "kind"),
    [(["a", "b"], [], "whole"), (["a"], ["b"], "partial"), ([], ["a", "b"], "reused")],
)
def test_status_says_what_the_last_ones_touched(
    engine: sa.Engine, refreshed: list[str], reused: list[str], kind: str
) -> None:
    """The latest of each; an app without any has none."""
    add_app(engine)
    add_app(engine, "other")
    add_step(engine, 1, "refresh", {"refreshed": ["old"], "reused": []})
    add_step(engine, 2, "refresh", {"refreshed": refreshed, "reused": reused})
    add_step(engine, 3, "publish", {"published": ["data", "design"], "moved": []})

    with reading(engine) as connection:
        found = fetch_app_status(connection, SETTINGS, "app").touched
        others = fetch_app_status(connection, SETTINGS, "other").touched

    assert (kind, refreshed, reused) == (
        found["refresh"].kind,
        found["refresh"].refreshed,
        found["refresh"].reused,
    )
    assert ("publish", ["data", "design"]) == (
        found["publish"].kind,
        found["publish"].published,
    )
    assert {} == others
