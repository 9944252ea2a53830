"""
What an occurrence may cost, counted: time differs from machine to machine.

More statements or commits are a slower product, even where no clock shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import sqlalchemy as sa

from celery_app.tasks import execute
from models.database.postgresql import PipelinedFlight
from operations.claiming.heart import Heart, Worker
from tests.scheduling import (
    add_app,
    add_revision,
    at,
    copy_action,
    edit_action,
    fetch_all,
    make_dispatcher,
    make_operation,
    post_at,
    record_all,
    tick,
)
from tests.unit.operations.fakes import World

SEVEN = at("07:00")
DUE = 10_000

#: For one occurrence of many, recorded and sent.
MOST_STATEMENTS = 0.05
MOST_COMMITS = 0.01


@dataclass
class Counts:
    """What an engine was asked for."""

    statements: int = 0
    commits: int = 0


@contextmanager
def counting(engine: sa.Engine) -> Iterator[Counts]:
    """Count what happens on *engine* within the block."""
    counts = Counts()

    def count_statement(*_arguments: object) -> None:
        counts.statements += 1

    def count_commit(_connection: sa.Connection) -> None:
        counts.commits += 1

    send = PipelinedFlight._send

    def count_sent(self: PipelinedFlight, query: str, *rest: Any) -> None:
        if query == "COMMIT":
            counts.commits += 1
        elif query.startswith("BEGIN"):
            counts.commits -= (
                1  # the end of a transaction that only reads costs nothing
            )
        else:
            counts.statements += 1
        send(self, query, *rest)

    sa.event.listen(engine, "before_cursor_execute", count_statement)
    sa.event.listen(engine, "commit", count_commit)
    try:
        with patch.object(PipelinedFlight, "_send", count_sent):
            yield counts
    finally:
        sa.event.remove(engine, "before_cursor_execute", count_statement)
        sa.event.remove(engine, "commit", count_commit)


def test_ten_thousand_due_share_their_statements(postgres_engine: sa.Engine):
    """At most 0.05 statements and 0.01 commits for an occurrence, sending included."""
    engine = postgres_engine
    add_app(engine)
    uid = post_at(engine, SEVEN)
    copy_action(engine, uid, DUE - 1)
    dispatcher = make_dispatcher(engine)

    with counting(engine) as counts:
        report = tick(dispatcher, SEVEN)

    assert (DUE, DUE, DUE) == (report.due, report.recorded, report.sent)
    assert counts.statements <= MOST_STATEMENTS * DUE
    assert counts.commits <= MOST_COMMITS * DUE


def test_cost_follows_what_is_due(postgres_engine: sa.Engine):
    """As many statements for 50 of 10,000 as for 50 of 100."""
    engine = postgres_engine
    add_app(engine)
    uid = post_at(engine, SEVEN)
    copy_action(engine, uid, 49, prefix="due")
    dispatcher = make_dispatcher(engine, clock=lambda: 0.0)  # lest it renew its lease
    with counting(engine) as few:
        first = tick(dispatcher, SEVEN)
    later = post_at(engine, SEVEN, name="later")
    edit_action(engine, later, next_due_at=SEVEN + timedelta(days=300))
    copy_action(engine, later, 9_949, prefix="later")

    with counting(engine) as many:
        second = tick(dispatcher, SEVEN + timedelta(days=1))

    assert (50, 50) == (first.due, second.due)
    assert few == many


def test_idle_tick_costs_one_statement(postgres_engine: sa.Engine):
    """What is registered is not looked at."""
    add_app(postgres_engine)
    uid = post_at(postgres_engine, SEVEN)
    copy_action(postgres_engine, uid, 999)
    dispatcher = make_dispatcher(postgres_engine)

    with counting(postgres_engine) as counts:
        report = tick(dispatcher, SEVEN - timedelta(minutes=1))

    assert 0 == report.due
    assert Counts(statements=1, commits=0) == counts


@contextmanager
def listening(engine: sa.Engine, wire: Path) -> Iterator[list[str]]:
    """Collect the round trips to PostgreSQL within the block, by their kind."""
    asked: list[str] = []
    engine.dispose()
    with wire.open("w") as file:

        def trace(connection: psycopg.Connection[Any], *_arguments: object) -> None:
            connection.pgconn.trace(file.fileno())

        sa.event.listen(engine, "connect", trace)
        try:
            yield asked
        finally:
            sa.event.remove(engine, "connect", trace)
            engine.dispose()  # libpq writes the rest of the trace
    parts = [line.split("\t") for line in wire.read_text().splitlines()]
    from_us = [part[3] for part in parts if part[1:2] == ["F"]]
    asked += [kind for kind in from_us if kind in {"Sync", "Query"}]


@contextmanager
def three_operations(engine: sa.Engine, folder: Path) -> Iterator[Callable[[], None]]:
    """Record three operations of one step, and give what runs them as a worker does."""
    add_revision(engine)
    operations = [make_operation(number) for number in range(3)]
    record_all(engine, *operations)
    lease = timedelta(minutes=1)
    heart = Heart(engine, lease=lease, every=lease)
    worker = Worker(engine, World(folder).make_context().ports, heart)

    def run() -> None:
        for operation in operations:
            execute(worker, str(operation.id), "celery@host")

    yield run
    heart.stop()
    assert ["succeeded"] * 3 == [row.state for row in fetch_all(engine)]


def test_operation_of_one_step_costs_two_round_trips(
    postgres_engine: sa.Engine, tmp_path: Path
):
    """Claim and steps, then the end of both: each a transaction of its own."""
    with three_operations(postgres_engine, tmp_path) as run:
        with listening(postgres_engine, tmp_path / "wire") as asked:
            run()

        assert ["Sync"] * 3 * 2 == asked


def test_operation_of_one_step_costs_two_transactions(
    sqlite_engine: sa.Engine, tmp_path: Path
):
    """Two statements in each, and BEGIN, which is one of ours."""
    with three_operations(sqlite_engine, tmp_path) as run:
        with counting(sqlite_engine) as counts:
            run()

        assert Counts(statements=3 * (2 + 4), commits=3 * 2) == counts
