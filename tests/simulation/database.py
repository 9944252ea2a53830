"""
The database of a simulated world: SQLite in memory, with the tables, the engine and
the statements of production, and a clock and faults of its own.

Tasks give way before a transaction and after a commit, never inside: what two
transactions do at once is for the tests on PostgreSQL. One engine serves all worlds
of a process, one after the other, so that statements are compiled once.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from functools import cache
from typing import Any, Protocol
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import format_utc, make_engine
from models.database.journal import GENESIS
from models.database.tables import metadata
from tests.simulation.faults import Place

#: Of the installation: signs the answers of tasks.
SECRET = "simulated"


class Host(Protocol):
    """What the database asks of the world it is in."""

    def database_clock(self) -> datetime:
        """Return the database's time."""

    def at_database(self, place: Place, statement: str = "") -> None:
        """Give way, fail, freeze or die, as the faults will have it."""

    def committed(self) -> None:
        """Look at what a commit has changed."""


#: Everything that a commit changed; the invariants read it after each commit.
#: A transaction that is rolled back takes its entries with it.
_LOG = """
CREATE TEMP TABLE sim_log (
    n INTEGER PRIMARY KEY, what TEXT, id TEXT,
    a, b, c, d, e, f, g, h, at TEXT
);
CREATE TEMP TRIGGER sim_recorded AFTER INSERT ON operations BEGIN
    INSERT INTO sim_log (what, id, a, b, c, d, e, f, g, h, at) VALUES
    ('recorded', NEW.id, NEW.action_uid, NEW.occurrence, NEW.user_id, NEW.state,
     NEW.reason, NEW.fence, NEW."trigger", NEW.details, minutehand_now(0));
END;
CREATE TEMP TRIGGER sim_operation AFTER UPDATE ON operations BEGIN
    INSERT INTO sim_log (what, id, a, b, c, d, e, f, g, h, at) VALUES
    ('operation', NEW.id, OLD.state, NEW.state, OLD.claim_token, NEW.claim_token,
     OLD.lease_expires_at, NEW.lease_expires_at, OLD.attempt, NEW.attempt,
     minutehand_now(0));
END;
CREATE TEMP TRIGGER sim_ended AFTER UPDATE OF finished_at ON operations
WHEN OLD.finished_at NOT NULL AND NEW.finished_at NOT NULL BEGIN
    INSERT INTO sim_log (what, id, a, b) VALUES
    ('ended again', NEW.id, OLD.finished_at, NEW.finished_at);
END;
CREATE TEMP TRIGGER sim_went_on AFTER UPDATE ON operations
WHEN OLD.state <> NEW.state OR OLD.reason IS NOT NEW.reason BEGIN
    INSERT INTO sim_log (what, id, a, b, c, d, e, f, g, h) VALUES
    ('went on', NEW.id, NEW.action_uid, OLD.state, NEW.state, OLD.attempt,
     NEW.attempt, OLD.send_at, NEW.reason, NEW.error);
END;
CREATE TEMP TRIGGER sim_deleted AFTER DELETE ON operations BEGIN
    INSERT INTO sim_log (what, id) VALUES ('deleted', OLD.id);
END;
CREATE TEMP TRIGGER sim_step AFTER UPDATE ON operation_steps
WHEN OLD.state <> NEW.state BEGIN
    INSERT INTO sim_log (what, id, a, b, c) VALUES
    ('step', NEW.operation_id, NEW.name, OLD.state, NEW.state);
END;
CREATE TEMP TRIGGER sim_first_mark AFTER INSERT ON deliveries BEGIN
    INSERT INTO sim_log (what, id, a, b, c, d) VALUES
    ('mark', NEW.operation_id, NEW.step, NEW.recipient, NULL, NEW.state);
END;
CREATE TEMP TRIGGER sim_mark AFTER UPDATE ON deliveries BEGIN
    INSERT INTO sim_log (what, id, a, b, c, d) VALUES
    ('mark', NEW.operation_id, NEW.step, NEW.recipient, OLD.state, NEW.state);
END;
CREATE TEMP TRIGGER sim_lease AFTER UPDATE ON leases BEGIN
    INSERT INTO sim_log (what, id, a, b, c, d, e, f, g, h, at) VALUES
    ('lease', NEW.name, OLD.holder, NEW.holder, OLD.fence, NEW.fence,
     OLD.expires_at, NEW.expires_at, OLD.last_tick_at, NEW.last_tick_at,
     minutehand_now(0));
END;
CREATE TEMP TRIGGER sim_moved AFTER UPDATE OF next_due_at ON scheduled_actions
WHEN OLD.next_due_at IS NOT NEW.next_due_at AND OLD.revision = NEW.revision BEGIN
    INSERT INTO sim_log (what, id, a, b) VALUES
    ('moved', NEW.uid, OLD.next_due_at, NEW.next_due_at);
END;
"""


class SimulatedDatabase:
    """The one engine, the raw connection below it, and the world it is in now."""

    raw: sqlite3.Connection
    host: Host | None
    _tables: list[str]

    def __init__(self) -> None:
        """Make the tables and hook the calls."""
        self.host = None
        self.engine = make_engine("sqlite://", clock=self._read_clock)
        dialect: Any = self.engine.dialect
        self._do_commit = dialect.do_commit
        with self.engine.begin() as connection:
            metadata.create_all(connection)
            raw = connection.connection.dbapi_connection
            assert isinstance(raw, sqlite3.Connection)
            self.raw = raw
        self.raw.executescript(_LOG)
        self._tables = [table.name for table in reversed(metadata.sorted_tables)]
        dialect.do_commit = self._commit
        # A crash inside a statement makes the pool drop its connection, which is
        # all there is of the database: it only ends the transaction, as a server
        # would, and is what the pool finds when it connects again.
        dialect.do_close = dialect.do_terminate = lambda _connection: raw.rollback()
        self.engine.pool._creator = lambda: raw
        # Ours comes first: whoever waits, fails or dies there has begun nothing.
        others = list(self.engine.dispatch.begin)
        for other in others:
            sa.event.remove(self.engine, "begin", other)
        for listener in (self._on_begin, *others):
            sa.event.listen(self.engine, "begin", listener)
        sa.event.listen(self.engine, "before_cursor_execute", self._on_statement)

    def enter(self, host: Host) -> None:
        """Empty all tables and be the database of *host* from now on."""
        self.host = None
        for table in self._tables:
            self.raw.execute(f"DELETE FROM {table}")
        self.raw.execute("DELETE FROM sim_log")
        # which the migration makes, and nobody can change anything without
        self.raw.execute("INSERT INTO change_head VALUES (1, 0, ?)", (GENESIS,))
        self.raw.execute(
            "INSERT INTO installation (id, secret, created_at) VALUES (?, ?, ?)",
            (str(UUID(int=1)), SECRET, format_utc(host.database_clock())),
        )
        self.host = host

    def leave(self) -> None:
        """Be no world's database."""
        self.host = None

    def take_log(self) -> list[tuple[Any, ...]]:
        """Return what was changed since the last call, in order."""
        rows: list[tuple[Any, ...]]
        rows = self.raw.execute("SELECT * FROM sim_log ORDER BY n").fetchall()
        if rows:
            self.raw.execute("DELETE FROM sim_log")
        return rows

    def _read_clock(self) -> datetime:
        assert self.host is not None  # nobody asks between two worlds
        return self.host.database_clock()

    def _on_begin(self, _connection: sa.Connection) -> None:
        if self.host is not None:
            self.host.at_database(Place.BEFORE_TRANSACTION)

    def _on_statement(self, *arguments: Any) -> None:
        statement = arguments[2]
        if self.host is None or statement.startswith("BEGIN"):
            return
        self.host.at_database(Place.STATEMENT, statement)

    def _commit(self, connection: Any) -> None:
        self._do_commit(connection)
        if self.host is not None:
            self.host.committed()
            self.host.at_database(Place.AFTER_COMMIT)


@cache
def get_database() -> SimulatedDatabase:
    """Return the database of this process."""
    return SimulatedDatabase()
