"""The parts of a page: each is read by itself; if one fails, the rest stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import sqlalchemy as sa
import structlog

from models.errors import UnreachableError
from serving.context import Context
from telemetry import Event

log = structlog.get_logger()

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class Unread:
    """
    A part of a page that could not be read.

    Args:
        why: What the database said, or that it took too long.
    """

    why: str


def read_part(
    context: Context, read: Callable[[sa.Connection], _Part]
) -> _Part | Unread:
    """
    Return what *read* returns, or that it could not be read.

    Args:
        read: Gets a connection of its own, which only reads.
    """
    try:
        with context.reading() as connection:
            return read(connection)
    except UnreachableError as error:
        log.warning(
            Event.WEB_REQUEST_UNSERVED,
            request_id=context.request_id,
            method=context.request.method,
            route=getattr(context.request.scope.get("route"), "path", None),
            error=str(error),
        )
        return Unread(str(error))
