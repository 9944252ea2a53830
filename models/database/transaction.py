"""
Transactions that are asked statement by statement.

Who asks need not know whether each answer comes at once, or when the transaction is
waited for; see ``Flight``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa

from models.database.engine import is_pooled, load_postgresql, translating, writing
from models.database.tables import leases


@dataclass(slots=True)
class Answer:
    """
    What the database answers to a statement; empty until that was waited for.

    Args:
        rows: Those that the statement returned, by position.
        count: How many rows it has changed, or returned.
    """

    rows: Sequence[Any] = ()
    count: int = 0


class Transaction(Protocol):
    """
    A transaction that is asked statement by statement.

    Args:
        connection: For whatever asks and waits in one; not to be used between ``ask``
            and ``wait``.
    """

    @property
    def connection(self) -> sa.Connection:
        """See above."""

    def ask(self, statement: sa.Executable, values: Mapping[str, object]) -> Answer:
        """
        Execute *statement* after all that was asked before.

        Args:
            statement: Rendered once, so pass the same object each time. It must have no
                lists for IN; see ``postgresql.execute_at_once``.
            values: For its bind parameters.
        """

    def ask_after(
        self, statement: sa.Executable, values: Mapping[str, object]
    ) -> Answer:
        """
        Read what *statement* finds when this is committed, or at once.

        For large answers: a server that cannot send one on, since nobody reads it yet,
        executes nothing more, and would not commit.
        """

    def wait(self, meanwhile: Callable[[], object]) -> None:
        """
        Wait for the answers to all that was asked.

        Args:
            meanwhile: Called before, if there is anything to wait for.
        """


@dataclass(frozen=True, slots=True)
class AtOnce:
    """A transaction of ``writing`` that has each answer at once."""

    connection: sa.Connection

    def ask(self, statement: sa.Executable, values: Mapping[str, object]) -> Answer:
        """Execute *statement* and wait."""
        result = self.connection.execute(statement, values)
        return Answer(result.all() if result.returns_rows else (), result.rowcount)

    def ask_after(
        self, statement: sa.Executable, values: Mapping[str, object]
    ) -> Answer:
        """Execute *statement*: its answer is read before the commit."""
        return self.ask(statement, values)

    def wait(self, meanwhile: Callable[[], object]) -> None:
        """Do nothing: there is nothing to wait for."""

    def land(self) -> None:
        """Do nothing: it is committed."""

    def abandon(self) -> None:
        """Do nothing: it is committed, or rolled back."""


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


def keep_leader_out(connection: sa.Connection) -> None:
    """
    Wait for the leader's transaction, and make its next one wait until our commit.

    Each of its transactions locks the lease first, and then many rows in an order of
    its own; without this lock, the two could deadlock.
    """
    connection.execute(sa.select(leases.c.name).with_for_update())
