"""Whose tasks are that stored actions send."""

from __future__ import annotations

import json
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from actions.posting.edit import Terms, patch_text, post_text
from actions.posting.post import SeenAction
from models.database.engine import writing
from models.errors import InvalidDocumentError
from models.fields.task_rules import ConnectionRules, TaskRules
from overview.previews import PreviewTerms, preview_text
from tests.scheduling import add_app, fetch_action, post

TASK = {"name": "shop.report", "queue": "reports"}


def test_connection_of_another_app_is_refused_at_post_and_preview(engine: sa.Engine):
    """And when a stored action is changed."""
    add_app(engine)
    uid = post(engine, operations={"run_task": {**TASK, "wait": True}}).uid
    listed: dict[str | None, ConnectionRules] = {None: ConnectionRules(["crm"])}
    terms = Terms(task_rules=TaskRules("minutehand", by_connection=listed))
    document = dict(fetch_action(engine, uid).document)
    refusals = []
    with writing(engine) as connection:
        for ask in (
            lambda: post_text(
                connection, "app", json.dumps({**document, "name": "new"}), terms=terms
            ),
            lambda: patch_text(connection, SeenAction(uid), "{}", terms=terms),
            lambda: preview_text(
                connection,
                "app",
                json.dumps(document),
                terms=terms,
                asked=PreviewTerms(ZoneInfo("UTC")),
            ),
        ):
            with pytest.raises(InvalidDocumentError) as caught:
                ask()
            refusals.append([each.pointer for each in caught.value.problems])

    assert [["/operations/run_task/connection"]] * 3 == refusals
