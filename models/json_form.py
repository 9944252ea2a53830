"""
How every face writes answers as JSON.

A frozen dataclass is the documented object: its fields are the members, in their order,
and keys are only added. Instants, durations and ids become text here. Pure.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from typing_extensions import TypedDict

from models.fields.instants import format_instant


class LocalTimeJson(TypedDict):
    """An instant, and what the clocks of a place show then: RFC 3339."""

    utc: datetime
    local: str
    zone: str
    offset: str


def make_local_time(at: datetime, zone: ZoneInfo) -> LocalTimeJson:
    """
    Return an instant with what the clocks of *zone* show.

    >>> make_local_time(datetime(2026, 11, 23, 6, tzinfo=UTC), ZoneInfo("Asia/Tokyo"))[
    ...     "local"
    ... ]
    '2026-11-23T15:00:00+09:00'
    """
    local = at.astimezone(zone)
    text = local.isoformat()
    offset = text.removeprefix(local.replace(tzinfo=None).isoformat())
    return {
        "utc": at.astimezone(UTC),
        "local": text,
        "zone": zone.key,
        "offset": offset,
    }


def write_json(value: object, *, indent: int | None = None) -> str:
    """
    Return *value* as JSON: instants as RFC 3339 in UTC, ids as text.

    Args:
        value: Anything that JSON has, aware datetimes, UUIDs, and dataclasses.
        indent: Spaces per level. None: all on one line.

    Raises:
        TypeError: *value* contains something else.

    >>> write_json({"by": "Zoë", "at": datetime.fromisoformat("2026-11-23T07:00+01")})
    '{"by": "Zoë", "at": "2026-11-23T06:00:00Z"}'
    """
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_as_text)


def _as_text(value: object) -> object:
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, UUID):
        return str(value)
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    msg = f"{value!r} has no JSON form"
    raise TypeError(msg)
