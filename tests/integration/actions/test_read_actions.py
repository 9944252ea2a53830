"""The queues of users' own tasks that doctor asks about."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import pause_action
from actions.pausing.targets import pause_target, spread_part
from actions.read_actions import fetch_task_queues
from tests.database import read_by, write_by
from tests.scheduling import add_app, post


@pytest.mark.parametrize("paused", ["shop", None], ids=["their app", "all"])
def test_queues_are_known_while_their_app_is_paused(
    engine: sa.Engine, paused: str | None
):
    """So that a missing worker is seen before the instant of a change-over."""
    add_app(engine, "shop")
    for name in ("given-up", "report"):
        task = {"name": f"shop.{name}", "queue": name}
        post(engine, "shop", uid=name, name=name, operations={"run_task": task})
    write_by(engine, pause_action, "given-up")
    write_by(engine, pause_target, paused)
    while write_by(engine, spread_part):
        pass

    assert ["report"] == [each.queue for each in read_by(engine, fetch_task_queues)]
