"""Look for what will cause trouble, before it does; below every face."""

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

#: For metrics, which a process gives from memory.
_ANSWERS_WITHIN_S = 3


def find_trouble(
    engine: sa.Engine, settings: Settings, *, names: Iterable[str] | None = None
) -> Iterator[Finding]:
    """
    Look at everything, and tell of each thing how it is.

    Args:
        engine: Whose every call has a deadline.

        settings: Of who looks.

        names: Of ``LOOKS``; only at these, without the schema. None: at all.

    Yields:
        Findings, in the order of ``LOOKS``. Where grants are missing, or the schema
        is of another version, nothing else can be looked at.

    Raises:
        UnreachableError: The database is away: who cannot look has found nothing.
    """
    if names is None:
        schema = look_at_schema(engine)
        yield schema
        if schema.health is Health.BAD:
            # The tables to look at may not be there, or may not be looked at.
            for each in _look(engine, settings, "grants"):
                if each.health is Health.BAD:
                    yield each
            return
    for name in LOOKS if names is None else names:
        yield from _look(engine, settings, name)


def _look(engine: sa.Engine, settings: Settings, name: str) -> Iterator[Finding]:
    """Look at one thing; what the database refuses is a finding, not the end."""
    try:
        with reading(engine) as connection:
            view = View(connection, settings, read_clock(connection))
            yield from LOOKS[name](view)
    except RefusedError as error:
        yield Finding(name, Health.BAD, f"could not be looked at: {error.cause}")


def look_at_schema(engine: sa.Engine) -> Finding:
    """Compare the schema of the database with that of this version."""
    try:
        schema = check_schema(engine)
    except UsageError as error:
        return Finding("schema", Health.BAD, str(error))
    except RefusedError as error:
        return Finding("schema", Health.BAD, f"could not be looked at: {error.cause}")
    if schema.is_newer:
        found = (
            f"{schema.found}, newer than {schema.wanted} of this program, which works "
            "on it. Upgrade it (docs/upgrades.md)."
        )
        return Finding("schema", Health.DOUBTFUL, found)
    return Finding("schema", Health.GOOD, "that of this version")


def look_at_own_scheduler(engine: sa.Engine, url: str) -> Finding:
    """
    Look at the one scheduler that serves its metrics at *url*.

    If it leads, it must have ticked; a standby is well if somebody has.
    """
    try:
        metrics = _read_metrics(url)
    except (OSError, ValueError) as error:
        return Finding("scheduler", Health.BAD, f"no answer from {url}: {error}")
    with reading(engine) as connection:
        now = read_clock(connection)
        ticked_at = get_last_tick_at(connection)
    role = "stands by, and somebody"
    if metrics["minutehand_is_leader"]:
        role = "leads, and"
        stamp = metrics["minutehand_last_tick_timestamp_seconds"]
        # What others did does not count: it may have lost the lease in its sleep.
        ticked_at = datetime.fromtimestamp(stamp, UTC) if stamp else None
    if ticked_at is None:
        return Finding("scheduler", Health.BAD, f"{role} has not ticked yet")
    late = now - ticked_at > LATE_TICK
    found = f"{role} ticked {format_age(now - ticked_at)} ago"
    return Finding("scheduler", Health.BAD if late else Health.GOOD, found)


def _read_metrics(url: str) -> dict[str, float]:
    """Return the metrics without labels that a process serves at *url*."""
    with urlopen(url, timeout=_ANSWERS_WITHIN_S) as answer:  # noqa: S310 - our own
        lines = answer.read().decode().splitlines()
    pairs = [line.split(" ") for line in lines if line.startswith("minutehand_")]
    return {pair[0]: float(pair[1]) for pair in pairs if "{" not in pair[0]}
