"""Parts of long lists. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

#: Where a list goes on: the sort key and the id of the last entry that was shown.
Position = tuple[str | int | datetime | UUID, ...]

_Entry = TypeVar("_Entry")


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
