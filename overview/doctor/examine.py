"""Examine the installation for problems, for every face; and whether we can serve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from urllib.request import urlopen

import sqlalchemy as sa

from actions.lease import get_last_tick_at
from migrations.schema_revisions import check_schema
from models.database.engine import read_clock, reading, reading_once
from models.errors import RefusedError, UnreachableError, UsageError
from models.units import format_age
from overview.doctor.checks import LOOKS
from overview.doctor.checks.database import OTHER_SCHEMA
from overview.doctor.checks.scheduler import is_tick_late
from overview.doctor.finding import Finding, Health, View, find_worst
from settings import Settings

#: Seconds that a process has to serve its metrics, which it keeps in memory.
_ANSWERS_WITHIN_S = 3


def look(view: View, names: Iterable[str]) -> Iterator[Finding]:
    """
    Look at *names*, keys of ``LOOKS``, and report the health of each subject.

    If the schema is of another version, only that is reported: the tables may be
    missing or unreadable.

    Raises:
        RefusedError: When its connection ends; the role lacks a right.
    """
    for name in names:
        found = list(LOOKS[name](view))
        yield from found
        if name == "schema" and find_worst(found) is Health.BAD:
            return


def find_trouble(
    engine: sa.Engine, settings: Settings, *, names: Sequence[str] = tuple(LOOKS)
) -> Iterator[Finding]:
    """
    Look at *names*, each on a connection of its own, so that one may be refused.

    Args:
        engine: Its every call has a deadline.
        names: Keys of ``LOOKS``.

    Yields:
        Findings, in the order of *names*. If the schema is of another version, only
        that and missing grants are reported.

    Raises:
        UnreachableError: The database does not answer.
    """
    for name in names:
        found = _look(engine, settings, name)
        yield from found
        if name == "schema" and find_worst(found) is Health.BAD:
            missing = _look(engine, settings, "grants")
            yield from (each for each in missing if each.health is Health.BAD)
            return


def _look(engine: sa.Engine, settings: Settings, name: str) -> list[Finding]:
    """Examine one subject; if the database refuses, that is a finding, not the end."""
    try:
        with reading_once(engine) as connection:
            view = View(connection, settings, read_clock(connection))
            return list(look(view, [name]))
    except RefusedError as error:
        detail = f"cannot be checked: {error.cause}"
        title = "a right in the database is missing"
        return [Finding(name, Health.BAD, detail, title)]


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
    late = is_tick_late(None, ticked_at, now)
    found = f"{role}; the last tick was {format_age(now - ticked_at)} ago"
    return Finding("scheduler", Health.BAD if late else Health.GOOD, found)


def _read_metrics(url: str) -> dict[str, float]:
    """Return those metrics at *url* that have no labels."""
    with urlopen(url, timeout=_ANSWERS_WITHIN_S) as answer:  # noqa: S310 - our own
        lines = answer.read().decode().splitlines()
    pairs = [line.split(" ") for line in lines if line.startswith("minutehand_")]
    return {pair[0]: float(pair[1]) for pair in pairs if "{" not in pair[0]}


def find_obstacle(engine: sa.Engine) -> str | None:
    """
    Return why requests cannot be served now; None: they can.

    Who asks is not known, so it names no host and repeats no error of the database.
    """
    try:
        check_schema(engine)
    except UnreachableError:
        return "the database does not answer. The doctor says why (minutehand doctor)"
    except UsageError:
        return f"{OTHER_SCHEMA}. The doctor says what to do (minutehand doctor)"
    return None
