"""
Rows that another session keeps locked: they hold up no others.

A forgotten shell keeps a row of PostgreSQL locked until its transaction ends, and a
statement that writes a thousand rows would wait for that one. SQLite has no locks of
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog

from models.database.engine import json_rows, make_rows_json
from models.database.transaction import Transaction
from models.errors import LockedError
from telemetry import Event

log = structlog.get_logger()

#: How long a leader waits for a lock: longer than PostgreSQL until it looks for a
#: deadlock (a second), and no tick is two seconds late.
LOCK_PATIENCE = timedelta(seconds=1.5)

#: The most rows that one line of the log names.
_NAMED = 10

_Item = TypeVar("_Item")
_Written = TypeVar("_Written")


@dataclass(slots=True)
class LockedRows:
    """
    Whether rows are waited for, as long as the session waits for any lock, or left out.

    They are left out from the first wait that was in vain, until none was for a whole
    tick. Whatever is left out is found again by whoever looks next: nothing is written
    of it.
    """

    are_left_out: bool = False
    #: Of this tick, and since rows are left out.
    _left: bool = False
    _told: set[object] = field(default_factory=set)

    def do_without(self, write: Callable[[], _Written]) -> _Written:
        """
        Do *write*; if it waited in vain, again without the rows that are locked.

        Raises:
            LockedError: Nor was it in vain for one of these rows.
        """
        try:
            return write()
        except LockedError as error:
            self.leave_out(error)
            return write()

    def leave_out(self, error: LockedError) -> None:
        """
        Leave out from now on what is locked.

        Raises:
            LockedError: *error*, if that was so already.
        """
        if self.are_left_out:
            raise error
        log.warning(Event.LOCK_HELD, error=str(error))
        self.are_left_out = True

    def end_tick(self) -> None:
        """Wait for rows again if none was left out since the last tick."""
        if not self._left:
            self.are_left_out = False
            self._told.clear()
        self._left = False

    def sift(
        self,
        transaction: Transaction,
        key: sa.Column[Any],
        items: Sequence[_Item],
        get_key: Callable[[_Item], object],
    ) -> tuple[Sequence[_Item], Sequence[_Item]]:
        """
        Lock the rows of *items*; return those that were free, and those to leave out.

        While rows are waited for, do nothing, and leave none out.

        Args:
            key: The column of what *get_key* gives.
        """
        if not (self.are_left_out and items):
            return items, ()
        keys = [get_key(item) for item in items]
        statement = _free_statement(transaction.connection.dialect.name, key)
        given = make_rows_json([{"key": each} for each in keys])
        answer = transaction.ask(statement, {"given": given})
        transaction.wait(lambda: None)
        found = {each for (each,) in answer.rows}
        free = [item for item in items if get_key(item) in found]
        held = [item for item in items if get_key(item) not in found]
        self._left |= bool(held)
        if new := set(keys) - found - self._told:
            self._told |= new
            first = sorted(map(str, new))[:_NAMED]
            log.warning(Event.ROWS_LEFT_OUT, table=key.table.name, first=first)
        return free, held


@cache
def _free_statement(dialect: str, key: sa.Column[Any]) -> sa.Executable:
    given = json_rows(dialect, {"key": key.type}, "given")
    return (
        sa.select(key)
        .where(key.in_(sa.select(given.c.key)))
        .with_for_update(key_share=True, skip_locked=True)
    )
