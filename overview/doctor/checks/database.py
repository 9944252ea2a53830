"""What may be done in the database."""

from __future__ import annotations

from collections.abc import Iterator

from models.database.grants import find_missing_grants
from overview.doctor.finding import Finding, Health, View


def look_at_grants(view: View) -> Iterator[Finding]:
    """Look for what the user of the database may not do, and has to."""
    missing = find_missing_grants(view.connection)
    for each in missing:
        yield Finding("grants", Health.BAD, each)
    if not missing:
        yield Finding("grants", Health.GOOD, "all that schedulers and workers need")
