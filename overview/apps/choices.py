"""The small apps that one may choose from, at the cost of their rows."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from models.database.tables import small_apps

#: More are not a choice any more.
MOST = 500

_kept = small_apps.c


@dataclass(frozen=True, slots=True)
class AppChoice:
    """A small app; *timezone* is None if it has none of its own."""

    uid: str
    name: str
    timezone: str | None


def fetch_app_choices(
    connection: sa.Connection, app: str | None = None
) -> list[AppChoice]:
    """
    Return the small apps by uid, at most MOST.

    Args:
        app: The only one that may be seen. None: all.
    """
    query = (
        sa.select(_kept.uid, _kept.name, _kept.timezone)
        .where(_kept.deleted_at.is_(None))
        .order_by(_kept.uid)
        .limit(MOST)
    )
    if app is not None:
        query = query.where(_kept.uid == app)
    return [AppChoice(*row) for row in connection.execute(query)]
