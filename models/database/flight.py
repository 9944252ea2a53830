"""
Transactions whose end nobody waits for.

A leader has better things to do than to wait for PostgreSQL: ``departing`` sends the
last statements of a transaction, and its commit, in one go, and their answers are read
when the flight lands. SQLite has no server that could work meanwhile, and a pooler may
lose its place in what it is sent in one go: there, a flight has landed when it departs.

    with departing(engine) as flight:
        moved = flight.ask(statement, values)
        compute_something()
        flight.wait()
        flight.ask(another, depending_on(moved.rows))
    do_something_else()
    flight.land()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import sqlalchemy as sa

from models.database.engine import (
    is_pooled,
    load_postgresql,
    translating,
    writing,
)
from models.database.transaction import AtOnce, Transaction


class Flight(Transaction, Protocol):
    """A transaction that has departed."""

    def land(self) -> None:
        """
        Wait until it is committed; fill the answers.

        Raises:
            UnreachableError: The database is away; whether it committed is unknown.
            sqlalchemy.exc.IntegrityError, psycopg.Error: Nothing was written.
        """

    def abandon(self) -> None:
        """Wait for nothing; whether it commits stays unknown."""


@contextmanager
def departing(engine: sa.Engine) -> Iterator[Flight]:
    """
    Give a transaction whose commit is sent at the end of the block, not waited for.

    Nothing is open between two calls of ours: whatever happens to this process after
    the block, the database has all it needs to commit.

    Raises:
        UnreachableError: From the block; nothing was written.
    """
    if _can_fly(engine):
        with translating(), load_postgresql().departing(engine) as flight:
            yield flight
    else:
        with writing(engine) as connection:
            flight = AtOnce(connection)
            yield flight


def _can_fly(engine: sa.Engine) -> bool:
    if engine.dialect.name != "postgresql":
        return False
    with translating(), engine.connect() as connection:
        return not is_pooled(connection)
