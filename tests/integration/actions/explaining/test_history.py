"""What an audit reads, in batches."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from actions.explaining.history import fetch_histories
from tests.scheduling import add_app, get_now, make_operation, post, record_all

YEARS = timedelta(days=999)


def test_audit_thinks_without_a_transaction(engine: sa.Engine):
    """Or PostgreSQL would end the session of a large one, whatever the batch."""
    add_app(engine)
    add_app(engine, "other")
    for number in range(7):
        for app in ("app", "other"):
            uid = post(engine, app, name=f"n{number}").uid
            record_all(engine, make_operation(action_uid=uid, app=app))
    now = get_now(engine)
    found = []
    for batch, decisions in ((500, 20_000), (3, 20_000), (500, 2), (1, 1)):
        histories = []
        for history in fetch_histories(
            engine,
            since=now - YEARS,
            until=now + YEARS,
            batch=batch,
            decisions=decisions,
        ):
            assert 0 == engine.pool.checkedout()  # type: ignore[attr-defined]
            histories.append(history)
        found.append(histories)

    assert 14 == len(found[0])
    assert [1] * 14 == [len(each.decided) for each in found[0]]
    assert found[0] == found[1] == found[2] == found[3]
