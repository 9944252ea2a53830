"""Whether a leader waits for rows that another session keeps locked."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog

from models.database.held_rows import find_held
from models.database.transaction import Transaction
from models.errors import LockedError
from telemetry import Event

log = structlog.get_logger()

#: How long a leader waits for a lock: longer than PostgreSQL until it looks for a
#: deadlock (a second), and no tick is two seconds late.
LOCK_PATIENCE = timedelta(seconds=1.2)

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")
_Written = TypeVar("_Written")


@dataclass(slots=True)
class LockedRows:
    """
    Rows are waited for; after a wait in vain, locked ones are left out until a whole
    tick has left out none.

    Nothing is written of what is left out, so whoever looks next finds it again.

    Args:
        left_out: The keys of what was, since the last tick. None: rows are waited for.
    """

    left_out: set[object] | None = None

    def do_without(self, write: Callable[[], _Written]) -> _Written:
        """
        Do *write*; if it waited in vain, again without the rows that are locked.

        Raises:
            LockedError: It waited in vain again, for something else.
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
        if self.left_out is not None:
            raise error
        log.warning(Event.LOCK_HELD, error=str(error))
        self.left_out = set()

    def end_tick(self) -> None:
        """Wait for rows again if none was left out since the last tick."""
        self.left_out = set() if self.left_out else None

    def find(
        self,
        transaction: Transaction,
        key: sa.Column[Any],
        keys: Iterable[_Key],
        *where: sa.ColumnElement[bool],
    ) -> set[_Key]:
        """Return what of *keys* to leave out, as ``find_held``; lock all others."""
        if self.left_out is None:
            return set()
        held = find_held(transaction, key, keys, *where)
        if new := held - self.left_out:
            self.left_out |= new
            named = {"table": key.table.name, "first": str(min(new, key=str))}
            log.warning(Event.ROWS_LEFT_OUT, rows=len(new), **named)
        return held


def split(
    items: Sequence[_Item], get_key: Callable[[_Item], _Key], held: Container[_Key]
) -> tuple[Sequence[_Item], Sequence[_Item]]:
    """Return those of *items* whose key is not among *held*, and the others."""
    if not held:
        return items, ()
    free = [each for each in items if get_key(each) not in held]
    return free, [each for each in items if get_key(each) in held]
