"""What a test does in a transaction of its own, with the functions of the product."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, overload

import sqlalchemy as sa
from sqlalchemy.sql.selectable import TypedReturnsRows

from models.database.engine import reading, writing
from models.database.tables import installation, metadata
from models.paging import Page, Part
from tests.servers import wait_until

#: What leaves nothing but the row of ``installation``, which the migration made.
EMPTYING = [
    f"delete from {table.name}"
    for table in reversed(metadata.sorted_tables)
    if table is not installation
]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


def write_by(
    engine: sa.Engine,
    function: Callable[Concatenate[sa.Connection, _P], _T],
    *arguments: _P.args,
    **how: _P.kwargs,
) -> _T:
    """Return what *function* does in a transaction of its own."""
    with writing(engine) as connection:
        return function(connection, *arguments, **how)


def read_by(
    engine: sa.Engine,
    function: Callable[Concatenate[sa.Connection, _P], _T],
    *arguments: _P.args,
    **how: _P.kwargs,
) -> _T:
    """Return what *function* reads."""
    with reading(engine) as connection:
        return function(connection, *arguments, **how)


def execute(engine: sa.Engine, statement: sa.Executable, values: Any = None) -> None:
    """Write by a statement, behind everybody's back."""
    with writing(engine) as connection:
        connection.execute(statement, values)


@overload
def fetch_rows(engine: sa.Engine, query: TypedReturnsRows[*_Ts]) -> sa.Result[*_Ts]: ...


@overload
def fetch_rows(
    engine: sa.Engine, query: sa.Executable
) -> sa.Result[*tuple[Any, ...]]: ...


def fetch_rows(engine: sa.Engine, query: sa.Executable) -> sa.Result[*tuple[Any, ...]]:
    """Return the rows of *query*, all of which were read."""
    with reading(engine) as connection:
        return connection.execute(query).freeze()()


def note_statements(engine: sa.Engine) -> list[str]:
    """Return the texts of the statements that *engine* will be asked, as they come."""
    asked: list[str] = []
    sa.event.listen(
        engine, "before_cursor_execute", lambda *given: asked.append(given[2])
    )
    return asked


def note_walks(engine: sa.Engine) -> set[str]:
    """
    Return what *engine*, of SQLite, will walk from beginning to end, as it does so.

    Returns:
        Names of tables that may have millions of rows, or of the indexes by which they
        are walked.
    """
    walked: set[str] = set()

    def explain(*given: Any) -> None:
        _connection, cursor, statement, parameters, _context, is_many = given
        if not is_many and not statement.startswith("BEGIN"):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = (row[-1].split() for row in cursor.fetchall())
            walked.update(
                step[-1] for step in steps if step[0] == "SCAN" and step[1] in _GROWS
            )

    sa.event.listen(engine, "before_cursor_execute", explain)
    return walked


#: By their names, and by the aliases that they have in statements.
_GROWS = {
    *("operations", "other", "told", "deliveries", "events", "users"),
    *("scheduled_actions", "scheduled_action_revisions"),
}


class KilledError(Exception):
    """The process is gone."""


def outlives(engine: sa.Engine, statements: int, work: Callable[[], object]) -> bool:
    """Tell whether *work* ends in a process that dies before that statement."""
    left = statements

    def die(*_arguments: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError

    sa.event.listen(engine, "before_cursor_execute", die)
    sa.event.listen(engine, "commit", die)
    try:
        work()
    except KilledError:
        return False
    finally:
        sa.event.remove(engine, "before_cursor_execute", die)
        sa.event.remove(engine, "commit", die)
    return True


def race(count: int, act: Callable[[int], _T]) -> list[_T]:
    """Return what *act* gives to so many threads that call it at once, by number."""
    barrier = threading.Barrier(count)

    def run(number: int) -> _T:
        barrier.wait()
        return act(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


def turn_pages(read: Callable[[Page], Part[_T]], limit: int) -> list[list[_T]]:
    """Return the parts of a list, of which *read* gives one; none is too long."""
    parts, page = [], Page(limit)
    while True:
        part = read(page)
        assert len(part.entries) <= limit
        parts.append([*part.entries])
        if part.following is None:
            return parts
        page = Page(limit, part.following)


#: Whether a statement in this database waits for what another transaction has locked.
_WAITING = sa.text(
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    " and datname = current_database()"
)


def is_waiting_for_lock(engine: sa.Engine) -> bool:
    """Tell whether somebody waits for what another transaction has locked."""
    return bool(fetch_rows(engine, _WAITING).scalar())


def wait_for_lock(engine: sa.Engine) -> None:
    """Wait until somebody does."""
    wait_until(lambda: is_waiting_for_lock(engine), what="somebody to wait for a lock")
