"""Failures of a day by cause, however many actions have it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tests.database import read_by
from tests.scheduling import MINUTE, get_now, put
from web.now.fetch_failures import Failures, fetch_failures


def fail(
    engine: sa.Engine,
    number: int,
    error: str,
    *,
    ago: timedelta = MINUTE,
    app: str = "app",
    uid: str = "daily",
    **values: Any,
) -> UUID:
    """Record an operation that failed with *error* that long ago."""
    given = {"attempt": 3, "reason": "step failed: call_webhook", **values}
    given |= {"finished_at": get_now(engine) - ago, "error": error, "state": "failed"}
    by = f'Scheduled action "{uid}"'
    return put(engine, number, app=app, action_uid=uid, triggered_by=by, **given)


def fetch(engine: sa.Engine, **options: Any) -> Failures:
    return read_by(engine, fetch_failures, **options)


def test_what_varies_makes_no_cause_of_its_own(engine: sa.Engine):
    """Ids and numbers differ, and actions too; the latest is the example."""
    fail(engine, 0, "call_webhook: shop answered 410 for order 17", ago=9 * MINUTE)
    fail(engine, 1, "call_webhook: shop answered 410 for order 18", ago=5 * MINUTE)
    latest = fail(
        engine, 2, "call_webhook: shop answered 410 for order 19\nmore", uid="other"
    )
    fail(engine, 3, "call_webhook: template is missing", attempt=1)

    found = fetch(engine)

    assert (4, True) == (found.count, found.is_whole)
    first, second = found.causes
    assert ("call_webhook: shop answered 410 for order 19", 3, latest, False) == (
        first.text,
        first.count,
        first.operation_id,
        first.is_permanent,
    )
    assert [("daily", 2), ("other", 1)] == [
        (each.name, each.count) for each in first.actions
    ]
    assert first.last_at - first.first_at > 7 * MINUTE
    assert (1, True) == (second.count, second.is_permanent)


def test_only_failures_of_a_day_and_of_the_app_count(engine: sa.Engine):
    """Not what is older, not what was missed, not what others did."""
    fail(engine, 0, "old", ago=timedelta(hours=25))
    fail(engine, 1, "theirs", app="other")
    mine = fail(engine, 2, "mine")
    put(engine, 3, state="missed", finished_at=get_now(engine))

    found = fetch(engine, app="app")

    assert [("mine", mine)] == [(e.text, e.operation_id) for e in found.causes]
    assert 2 == fetch(engine).count


def test_bound_is_told(engine: sa.Engine):
    """The latest are looked at, and since when is said."""
    fail(engine, 0, "first", ago=9 * MINUTE)
    fail(engine, 1, "second", ago=5 * MINUTE)
    fail(engine, 2, "third")

    found = fetch(engine, most=2)

    assert (False, 2) == (found.is_whole, found.count)
    assert found.since == min(each.first_at for each in found.causes)


def test_nothing_failed(engine: sa.Engine):
    """There are no causes."""
    assert (0, True) == (fetch(engine).count, fetch(engine).is_whole)
