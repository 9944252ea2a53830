"""
Time zones by name, and the instants at which their clocks show a time.

Pure: a function of the installed tz database.

The database is that of the tzdata package, never the host's, so that every host
computes the same occurrences whatever its operating system ships.
"""

from __future__ import annotations

import difflib
import io
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from models.errors import RuleError

_SECOND = timedelta(seconds=1)

#: Characters. The longest name of the tz database has 32; more is not a typo.
_LONGEST_NAME = 64

_HINT = "Write a name of the tz database, such as 'Europe/Paris' or 'UTC'."

#: What people write for an offset. "Etc/GMT+1" exists, but is one hour *behind*
#: UTC, so it must never be suggested to somebody who wrote "GMT+1".
_OFFSET = re.compile(r"(gmt|utc|z)?[+-]\d{1,2}(:?\d\d)?", re.IGNORECASE)

#: What clocks show in summer: zones have other names, some of which look alike.
_SUMMER_HOURS = frozenset(
    ("BST", "CEST", "EEST", "WEST", "EDT", "CDT", "MDT", "PDT", "AEDT", "NZDT")
)

#: Names in the database that are not zones: "localtime" stands for whatever the host
#: is set to, "Factory" for nothing.
_NOT_OFFERED = frozenset({"Factory", "localtime"})


@cache
def get_zone_names() -> frozenset[str]:
    """Return every zone name that ``load_zone`` accepts."""
    text = resources.files("tzdata").joinpath("zones").read_text("utf-8")
    return frozenset(text.split()) - _NOT_OFFERED


def load_zone(name: str) -> ZoneInfo:
    """
    Return the zone called *name*; the same object for the same name.

    Args:
        name: A name of the tz database, spelled as there ("Europe/Paris").

    Raises:
        RuleError: If there is no such zone; the hint has the nearest names.

    >>> load_zone("Europe/Paris")
    zoneinfo.ZoneInfo(key='Europe/Paris')
    """
    if name not in get_zone_names():
        raise _make_error(name)

    return _read_zone(name)


@cache
def _read_zone(name: str) -> ZoneInfo:
    """Read a zone that is known to exist; once for each name."""
    return ZoneInfo.from_file(io.BytesIO(read_zone_data(name)), key=name)


@cache
def read_zone_data(name: str) -> bytes:
    """Return the rules of a zone that is known to exist."""
    return resources.files("tzdata").joinpath(f"zoneinfo/{name}").read_bytes()


def _make_error(name: str) -> RuleError:
    """Return why *name* is not a zone, and which one was probably meant."""
    if not name.strip():
        return RuleError(f"{name!r} is not a time zone: the name is empty.", _HINT)

    if len(name) > _LONGEST_NAME:
        message = f"{name[:20]!r}... is not a time zone: it has {len(name)} characters."
        return RuleError(message, _HINT)

    if name.startswith(("/", ".")) or "\\" in name or "\0" in name or ".." in name:
        return RuleError(f"{name!r} is a path, not the name of a time zone.", _HINT)

    is_summer = name.strip().upper() in _SUMMER_HOURS
    if is_summer or _OFFSET.fullmatch(name.replace(" ", "")):
        what = "what clocks show in summer" if is_summer else "an offset from UTC"
        message = f"{name!r} is {what}, not a time zone."
        return RuleError(message, "Name a place, such as 'Europe/Paris', or 'UTC'.")

    message = f"{name!r} is not a time zone of the tz database."
    by_folded = {known.casefold(): known for known in sorted(get_zone_names())}
    folded = name.strip().replace(" ", "_").casefold()
    near = [by_folded[folded]] if folded in by_folded else _find_near(folded, by_folded)
    if not near:
        return RuleError(message, _HINT)

    return RuleError(message, f"Did you mean {' or '.join(map(repr, near))}?")


def _find_near(folded: str, by_folded: dict[str, str]) -> list[str]:
    """Return up to two names like *folded*; a bare city finds its zone."""
    cities = [
        known
        for low, known in by_folded.items()
        if low.rpartition("/")[2] == folded and low != folded
    ]
    if cities:
        return cities[:2]

    close = difflib.get_close_matches(folded, by_folded, n=2, cutoff=0.75)
    return [by_folded[low] for low in close]


def first_instant_at(local: datetime, zone: ZoneInfo) -> datetime:
    """
    Return the first instant at which the clocks of *zone* show *local* or later.

    ``datetime`` answers this, too, except for local times in a gap, for which its
    answer is wrong by the size of the gap.

    Args:
        local: Naive local time of *zone*, years 1900 to 9998.
        zone: The zone of *local*.

    Returns:
        Aware UTC. For a local time that occurs twice, the first of the two; for one in
        a gap, however long, the first instant after the gap.

    >>> paris = ZoneInfo("Europe/Paris")
    >>> first_instant_at(datetime(2026, 3, 29, 2, 30), paris).isoformat()
    '2026-03-29T01:00:00+00:00'
    >>> first_instant_at(datetime(2026, 10, 25, 2, 30), paris).isoformat()
    '2026-10-25T00:30:00+00:00'
    """
    after = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if after.astimezone(zone).replace(tzinfo=None) == local:
        return after

    # In a gap, fold 0 gives an instant after the change and fold 1 one before it.
    # Zones change on whole seconds, so the search is in whole seconds, too.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC).replace(microsecond=0)
    low, high = 0, (after - before) // _SECOND + 1
    while high - low > 1:
        middle = (low + high) // 2
        shown = (before + middle * _SECOND).astimezone(zone).replace(tzinfo=None)
        if shown < local:
            low = middle
        else:
            high = middle

    return before + high * _SECOND
