"""Ids as people type them: whole, or as much of them as tables show."""

from __future__ import annotations

from uuid import UUID

from cli.connection import read_database
from models.database.lists import SHOWN_DIGITS
from operations.state import find_operation_id


def shorten(identifier: UUID) -> str:
    """Return the first digits of *identifier*, which every command takes."""
    return str(identifier)[:SHOWN_DIGITS]


def read_operation_id(text: str) -> UUID:
    """
    Return the id of the operation that *text* names.

    Raises:
        NotFoundError: No operation has it.
        ConflictError: Several ids begin so.
    """
    try:
        return UUID(text)
    except ValueError:
        with read_database() as connection:
            return find_operation_id(connection, text)
