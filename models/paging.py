"""Parts of long lists. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from models.errors import UsageError

#: Where a list goes on: the sort key and the id of the last entry that was shown.
Position = tuple[str | int | datetime | UUID, ...]

_Entry = TypeVar("_Entry")

#: The largest number that every column of the database takes.
LARGEST_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Page:
    """
    Which part of a list is wanted.

    Args:
        limit: The most entries.
        after: The position of the last entry of the part before. None: the beginning.
    """

    limit: int = 50
    after: Position | None = None

    def read_after(self, *kinds: type, largest: int = LARGEST_NUMBER) -> Any:
        """
        Return ``after``, whose parts are of *kinds*; None if there is none.

        Args:
            kinds: Of each part, in their order.
            largest: The bound of numbers; none is below 0.

        Raises:
            UsageError: They are not. Cursors are not signed, so that a caller may have
                made this one up.
        """
        if self.after is None:
            return None
        fits = len(self.after) == len(kinds) and all(
            isinstance(part, kind)
            and not (isinstance(part, int) and not 0 <= part <= largest)
            for part, kind in zip(self.after, kinds, strict=True)
        )
        if not fits:
            msg = "the cursor is of another list. Take next_cursor of this one."
            raise UsageError(msg)
        return self.after


@dataclass(frozen=True, slots=True)
class Part(Generic[_Entry]):
    """
    A part of a list.

    Args:
        entries: In the order of the list; at most as many as were asked for.
        following: The position after which the list goes on. None: this was the end.
    """

    entries: Sequence[_Entry]
    following: Position | None
