"""Whether the database user has all rights that it needs."""

from __future__ import annotations

from collections.abc import Iterator

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
