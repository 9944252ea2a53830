"""The id of the installation to which this database belongs."""

from __future__ import annotations

import sqlalchemy as sa

from models.database.tables import installation


def fetch_installation(connection: sa.Connection) -> str | None:
    """Return the installation's id, as in messages; None: the row is missing."""
    found = connection.execute(sa.select(installation.c.id).limit(1)).scalar()
    return None if found is None else str(found)
