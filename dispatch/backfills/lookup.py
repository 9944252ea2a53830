"""Find a backfill by what somebody calls it."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from models.database.lists import find_by_prefix
from models.database.tables import backfills


def find_backfill_id(connection: sa.Connection, text: str) -> UUID:
    """Return the id of a backfill that begins with *text*: see ``find_by_prefix``."""
    return find_by_prefix(connection, backfills.c.id, text, noun="backfill")
