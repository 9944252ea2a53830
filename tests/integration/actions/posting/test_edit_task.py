"""A task that was stored before anybody waited for its end."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from actions.posting.edit import Terms, patch_text, roll_back
from actions.posting.post import SeenAction
from models.database.engine import writing
from models.fields.task_rules import TaskRules
from tests.scheduling import add_app, fetch_action, post

TERMS = Terms(task_rules=TaskRules("minutehand"))
TASK = {"name": "shop.report", "queue": "reports"}


@pytest.mark.parametrize("given", [{"name": "other"}, {"catch_up": {"runs": "all"}}])
def test_change_of_something_else_does_not_make_it_wait(
    engine: sa.Engine, given: dict[str, object]
):
    """
    The default is for new documents; what has run for a year runs as before.
    """
    add_app(engine)
    uid = post(engine, operations={"run_task": TASK}).uid
    with writing(engine) as connection:
        patch_text(
            connection,
            SeenAction(uid),
            json.dumps(given),
            terms=TERMS,
        )
    patched = fetch_action(engine, uid).document["operations"]["run_task"]
    with writing(engine) as connection:
        roll_back(
            connection,
            SeenAction(uid),
            1,
            terms=TERMS,
        )
    rolled_back = fetch_action(engine, uid).document["operations"]["run_task"]

    assert {**TASK, "wait": False} == patched == rolled_back
