"""
Sizes at which a design that is a little wrong shows, counted rather than timed.

On PostgreSQL, whose plans are those of a table that has been analysed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest
import sqlalchemy as sa

from models.database.engine import writing
from tests.integration.test_budget import MOST_STATEMENTS, copy_action, counting
from tests.scheduling import (
    FakeSender,
    add_app,
    at,
    edit_action,
    make_dispatcher,
    post_at,
    tick,
)

SEVEN = at("07:00")
WEEK = timedelta(days=7)

CROWD = 50_000
FEW = 10

USERS = 100_000
WAITING = 10_000
SEEN = "instance.user.last_seen"


def test_crowded_app_delays_nobody(postgres_engine: sa.Engine):
    """
    Of 50,000 due in one app, and ten in another, the ten are not behind a hundred.
    """
    engine = postgres_engine
    add_app(engine, "crowd")
    add_app(engine, "few")
    many = post_at(engine, SEVEN, "crowd")
    copy_action(engine, many, CROWD - 1, "crowd")
    # the last of them, by whatever order but that of turns
    few = post_at(engine, SEVEN, "few", name="z", uid="zzz")
    copy_action(engine, few, FEW - 1, "zzz")
    sender = FakeSender()

    with pytest.raises(EnoughError):
        tick(make_dispatcher(engine, sender), SEVEN, meanwhile=stop_at_third())

    messages = [message for batch in sender.batches for message in batch]
    places = [n for n, each in enumerate(messages) if '"z' in each.triggered_by]
    assert FEW == len(places)
    assert places[-1] < 100


class EnoughError(BaseException):
    """Not an Exception, so that the tick does not look for its culprit."""


def stop_at_third() -> Callable[[], None]:
    """Return what ends a tick before its third chunk."""
    chunks = count(1)

    def meanwhile() -> None:
        if next(chunks) == 3:
            raise EnoughError

    return meanwhile


def add_users_seen_long_ago(engine: sa.Engine) -> None:
    """Add users, one of whom has been away for a week at SEVEN; the others not yet."""
    with writing(engine) as connection:
        connection.execute(
            sa.text(
                "insert into users (app, id, email, disabled, activated_at, created_at)"
                " select 'app', n, n || '@example.org', false, :now, :now"
                " from generate_series(1, :count) n"
            ),
            {"count": USERS, "now": SEVEN - 2 * WEEK},
        )
        connection.execute(
            sa.text(
                "insert into events (id, app, name, user_id, at, recorded_at)"
                " select gen_random_uuid(), 'app', :name, n, first + n * step,"
                " first + n * step from generate_series(1, :count) n, (values"
                " (cast(:first as timestamptz), interval '5 seconds')) v(first, step)"
            ),
            {"count": USERS, "name": SEEN, "first": SEVEN - WEEK - timedelta(0, 5)},
        )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("analyze")


def test_event_actions_read_only_the_events_that_are_due(postgres_engine: sa.Engine):
    """
    Of 100,000 users one has been away for a week; 10,000 actions wait for that. One
    operation for each, in few statements, none of which reads all events.
    """
    engine = postgres_engine
    add_app(engine)
    uid = post_at(engine, SEVEN, when={"after": SEEN, "delay": "P7D"})
    edit_action(engine, uid, effective_from=SEVEN - WEEK)
    copy_action(engine, uid, WAITING - 1, "copy")
    add_users_seen_long_ago(engine)
    dispatcher = make_dispatcher(engine)
    scans = count_scans(engine, "events")

    with counting(engine) as counts:
        report = tick(dispatcher, SEVEN)

    assert (WAITING, WAITING) == (report.due, report.recorded)
    assert counts.statements <= MOST_STATEMENTS * WAITING
    assert scans == count_scans(engine, "events")


def count_scans(engine: sa.Engine, table: str) -> int:
    """Return how often *table* was read from its beginning to its end."""
    engine.dispose()  # a session reports what it read when it ends
    with engine.connect() as connection:
        query = "select seq_scan from pg_stat_user_tables where relname = :table"
        found = connection.execute(sa.text(query), {"table": table})
        return int(found.scalar_one())
