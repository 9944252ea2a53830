"""
What is asked of SQLite again and again is found by indexes.

It knows no figures of tables: of two indexes that seem as good it takes either, and for
an order, a group, an OR or a list of pairs it walks a table from beginning to end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from actions.lookup import find_action
from actions.read_rules import fetch_zones
from actions.user_events import NewEvent, record_events
from models.database.lists import fetch_documents
from models.event import EventName
from operations.operation_filter import OperationFilter
from tests.database import note_walks, read_by, write_by
from tests.scheduling import add_app, post
from web.now.fetch_not_run import fetch_not_run
from web.now.fetch_running import fetch_under_way
from web.operations.fetch_facets import count_facets

#: Of a few rows; and those that are walked from their end, as far as a bound.
CHEAP = {
    *("ix_operations_tried_before", "ix_operations_recorded_at"),
    *("ix_operations_recorded_apart", "ix_deliveries_uncertain"),
}


def test_no_event_is_walked_to_record_one(sqlite_engine: sa.Engine):
    """Whoever was seen again cost a look at all events that there were."""
    add_app(sqlite_engine, ids=["ann"])
    walked = note_walks(sqlite_engine)

    for name in ("app.x", EventName.USER_LAST_SEEN):
        write_by(sqlite_engine, record_events, [NewEvent("app", name, "ann")])

    assert set() == walked


def test_no_action_is_walked_to_find_one_by_its_uid(sqlite_engine: sa.Engine):
    """Only for a name, of which several small apps may have one, are all looked at."""
    add_app(sqlite_engine)
    uid = post(sqlite_engine).uid
    walked = note_walks(sqlite_engine)

    assert uid == read_by(sqlite_engine, find_action, uid).uid

    assert set() == walked


@pytest.mark.parametrize(
    "ask",
    [
        partial(fetch_documents, keys=[("daily", 1), ("weekly", 2)]),
        partial(fetch_zones, keys=[("daily", 1), ("weekly", 2)]),
        partial(count_facets, wanted=OperationFilter()),
        *(fetch_not_run, fetch_under_way),
    ],
    ids=["documents", "zones", "facets", "not run", "under way"],
)
def test_nothing_is_walked_that_grows(
    sqlite_engine: sa.Engine, ask: Callable[..., Any]
):
    walked = note_walks(sqlite_engine)

    read_by(sqlite_engine, ask)

    assert set() == walked - CHEAP
