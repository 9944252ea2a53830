"""Many actions in one post: all of them or none, in few statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from actions.posting.post import Posted, Posting, post_actions
from models.database.tables import scheduled_action_revisions, scheduled_actions
from models.door.documents import read_action_object
from models.errors import ConflictError, InvalidDocumentError
from tests.database import fetch_rows, write_by
from tests.integration.test_budget import counting
from tests.scheduling import fetch_action, get_now, make_document, post

pytestmark = pytest.mark.usefixtures("small_app")


def post_many(
    engine: sa.Engine, documents: Sequence[dict[str, Any]], *, replace: bool = False
) -> list[Posted]:
    actions = [read_action_object(make_document(**each)) for each in documents]
    return write_by(engine, post_actions, "app", actions, Posting(replace))


def count(engine: sa.Engine, table: sa.Table) -> int:
    query = sa.select(sa.func.count()).select_from(table)
    return fetch_rows(engine, query).scalar_one()


def test_many_are_what_each_alone_would_be(engine: sa.Engine):
    old = post(engine, name="second", when={"cron_rule": "0 7 * * *"})

    posted = post_many(
        engine,
        [
            {"name": "first"},
            {"name": "second", "when": {"cron_rule": "* * * * *"}},
            {"name": "third", "uid": "given"},
        ],
        replace=True,
    )

    assert [True, False, True] == [each.created for each in posted]
    assert [1, 2, 1] == [each.revision for each in posted]
    assert [old.uid, "given"] == [posted[1].uid, posted[2].uid]
    for each in posted:
        row = fetch_action(engine, each.uid)
        assert (each.revision, True) == (row.revision, row.next_due_at is not None)
    assert 4 == count(engine, scheduled_action_revisions)


def test_one_that_is_refused_stops_all(engine: sa.Engine):
    past = (get_now(engine) - timedelta(minutes=6)).replace(microsecond=0).isoformat()
    wrong = {"due_date": past}

    with pytest.raises(InvalidDocumentError) as caught:
        post_many(
            engine,
            [{"name": "a"}, {"name": "b", "when": wrong}, {"name": "c", "when": wrong}],
        )

    pointers = [problem.pointer for problem in caught.value.problems]
    assert ["/1/when/due_date", "/2/when/due_date"] == pointers
    assert "has passed" in caught.value.problems[0].message
    assert 0 == count(engine, scheduled_actions)


def test_one_that_is_taken_stops_all(engine: sa.Engine):
    post(engine, name="b")

    with pytest.raises(ConflictError, match="'b'"):
        post_many(engine, [{"name": "a"}, {"name": "b"}])

    assert 1 == count(engine, scheduled_actions)


@pytest.mark.parametrize("key", ["name", "uid"])
def test_two_of_one_name_are_refused(engine: sa.Engine, key: str):
    """Which of the two was meant is for their author to say."""
    documents = [{"name": f"n{i}", "uid": f"u{i}"} for i in range(3)]
    documents[2][key] = documents[0][key]

    with pytest.raises(InvalidDocumentError) as caught:
        post_many(engine, documents, replace=True)

    assert [f"/2/{key}"] == [problem.pointer for problem in caught.value.problems]
    assert "action 0" in str(caught.value)


def test_many_cost_a_few_statements(engine: sa.Engine):
    documents = [{"name": f"action {number}"} for number in range(200)]

    with counting(engine) as counts:
        post_many(engine, documents)

    assert 200 == count(engine, scheduled_actions)
    assert counts.statements < 20
    assert 1 == counts.commits
