"""Examine the installation for problems, for every face."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.request import urlopen

import sqlalchemy as sa

from actions.leader import get_last_tick_at
from migrations.schema_revisions import check_schema
from models.database.engine import read_clock, reading
from models.errors import RefusedError, UsageError
from models.units import format_age
from overview.doctor.checks import LOOKS
from overview.doctor.checks.scheduler import LATE_TICK
from overview.doctor.finding import Finding, Health, View
from settings import Settings

#: Seconds that a process has to serve its metrics, which it keeps in memory.
_ANSWERS_WITHIN_S = 3


def find_trouble(
    engine: sa.Engine, settings: Settings, *, names: Iterable[str] | None = None
) -> Iterator[Finding]:
    """
    Examine everything, and report the health of each subject.

    Args:
        engine: Its every call has a deadline.

        settings: Of this process.

        names: Keys of ``LOOKS`` to examine, without the schema. None: all of them, and
            the schema.

    Yields:
        Findings, in the order of ``LOOKS``. If the schema is of another version, or
        grants are missing, only that is reported.

    Raises:
        UnreachableError: The database does not answer, so nothing can be examined.
    """
    if names is None:
        schema = look_at_schema(engine)
        yield schema
        if schema.health is Health.BAD:
            # The tables may be missing or unreadable, so no other look makes sense.
            for each in _look(engine, settings, "grants"):
                if each.health is Health.BAD:
                    yield each
            return
    for name in LOOKS if names is None else names:
        yield from _look(engine, settings, name)


def _look(engine: sa.Engine, settings: Settings, name: str) -> Iterator[Finding]:
    """Examine one subject; if the database refuses, that is a finding, not the end."""
    try:
        with reading(engine) as connection:
            view = View(connection, settings, read_clock(connection))
            yield from LOOKS[name](view)
    except RefusedError as error:
        yield Finding(name, Health.BAD, f"cannot be checked: {error.cause}")


def look_at_schema(engine: sa.Engine) -> Finding:
    """Compare the schema of the database with that of this version."""
    try:
        schema = check_schema(engine)
    except UsageError as error:
        return Finding("schema", Health.BAD, str(error))
    except RefusedError as error:
        return Finding("schema", Health.BAD, f"cannot be checked: {error.cause}")
    if schema.is_newer:
        found = (
            f"the database is at {schema.found}, newer than this program's own "
            f"({schema.wanted}) but compatible. Upgrade the program (docs/upgrades.md)."
        )
        return Finding("schema", Health.DOUBTFUL, found)
    return Finding("schema", Health.GOOD, "it is that of this version")


def look_at_own_scheduler(engine: sa.Engine, url: str) -> Finding:
    """
    Look at the one scheduler that serves its metrics at *url*.

    A leader must have ticked itself; a standby is healthy if any scheduler has.
    """
    try:
        metrics = _read_metrics(url)
    except (OSError, ValueError) as error:
        return Finding("scheduler", Health.BAD, f"no answer from {url}: {error}")
    with reading(engine) as connection:
        now = read_clock(connection)
        ticked_at = get_last_tick_at(connection)
    role = "it stands by"
    if metrics["minutehand_is_leader"]:
        role = "it leads"
        stamp = metrics["minutehand_last_tick_timestamp_seconds"]
        # Ticks of others do not count: this one may have lost the lease while it slept.
        ticked_at = datetime.fromtimestamp(stamp, UTC) if stamp else None
    if ticked_at is None:
        return Finding("scheduler", Health.BAD, f"{role}; there has been no tick yet")
    late = now - ticked_at > LATE_TICK
    found = f"{role}; the last tick was {format_age(now - ticked_at)} ago"
    return Finding("scheduler", Health.BAD if late else Health.GOOD, found)


def _read_metrics(url: str) -> dict[str, float]:
    """Return those metrics at *url* that have no labels."""
    with urlopen(url, timeout=_ANSWERS_WITHIN_S) as answer:  # noqa: S310 - our own
        lines = answer.read().decode().splitlines()
    pairs = [line.split(" ") for line in lines if line.startswith("minutehand_")]
    return {pair[0]: float(pair[1]) for pair in pairs if "{" not in pair[0]}
