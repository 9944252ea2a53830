"""The zones in which stored actions are read, and their rules in the tzdata in use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources
from importlib.metadata import version

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.occurrences import parse_timing
from models.database.engine import db_now
from models.database.tables import zones
from models.when import TimingModel

#: How the programs read the rules of a zone, stored beside them. 1: days of intervals
#: and delays have 24 hours. 2: they are days of the calendar. Raise it with each change
#: that moves occurrences, so that the next leader computes anew what is due when.
READING = 2


@cache
def read_zone_data(name: str) -> bytes:
    """Return the rules of a zone that is known to exist."""
    return resources.files("tzdata").joinpath(f"zoneinfo/{name}").read_bytes()


def remember_zones(
    connection: sa.Connection, names: Iterable[str], *, made_by: str | None = None
) -> None:
    """Store the rules of zones that are used for the first time."""
    made_by = made_by or make_version()
    rows = [
        {
            "name": name,
            "data": read_zone_data(name),
            "version": made_by or make_version(),
        }
        for name in sorted(set(names))
    ]
    if rows:
        statement = insert(zones).values(recorded_at=db_now())
        connection.execute(statement.on_conflict_do_nothing(), rows)


def make_version() -> str:
    """Return what is stored beside the rules of a zone: who has read them last."""
    return f"{version('tzdata')}, reading {READING}"


def get_zone_names_of(timing: TimingModel) -> set[str]:
    """Return the zones in which the rules of *timing* are read."""
    schedule = parse_timing(timing.model_dump_json())
    return {rule.zone.key for rule in schedule.rules}
