"""Which installation this database is of."""

from __future__ import annotations

import sqlalchemy as sa

from models.database.tables import installation


def fetch_installation(connection: sa.Connection) -> str | None:
    """Return the id that the migration made, as messages carry it; None: it is gone."""
    found = connection.execute(sa.select(installation.c.id).limit(1)).scalar()
    return None if found is None else str(found)
