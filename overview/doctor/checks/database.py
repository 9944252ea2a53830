"""How the database is reached, and whether its user has all rights that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from models.database.engine import is_pooled
from models.database.grants import find_missing_grants
from overview.doctor.finding import Finding, Health, View


def look_at_grants(view: View) -> Iterator[Finding]:
    """Look for rights that the database user needs and lacks."""
    missing = find_missing_grants(view.connection)
    for each in missing:
        yield Finding("grants", Health.BAD, each)
    if not missing:
        found = "the database user has all that schedulers and workers need"
        yield Finding("grants", Health.GOOD, found)


def look_at_pooler(view: View) -> Iterator[Finding]:
    """Say that a pooler stands between, if one does."""
    if is_pooled(view.connection):
        found = (
            "one stands between us and PostgreSQL: each transaction says its deadlines"
            " itself, and nothing is left in a session"
        )
        yield Finding("pooler", Health.GOOD, found)
