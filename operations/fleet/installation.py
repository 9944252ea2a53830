"""The installation to which this database belongs: its id, and its secret."""

from __future__ import annotations

import sqlalchemy as sa

from models.database.tables import installation


def fetch_installation(connection: sa.Connection) -> str | None:
    """Return the installation's id, as in messages; None: the row is missing."""
    found = connection.execute(sa.select(installation.c.id).limit(1)).scalar()
    return None if found is None else str(found)


def fetch_secret(connection: sa.Connection) -> str:
    """Return what signs the answers of tasks: see ``foreign_tasks.make_token``."""
    secret: str = connection.execute(sa.select(installation.c.secret)).scalar_one()
    return secret
