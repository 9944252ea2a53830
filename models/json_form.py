"""
How every face writes answers as JSON.

A frozen dataclass is the documented object: its fields are the members, in their order,
and keys are only added. Instants, durations and ids become text here. Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from functools import cache
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from typing_extensions import TypedDict

from models.fields.instants import format_instant

#: The metadata of a field that faces need beside the documented object: JSON and the
#: schema lack it. With ``serialization_alias``, a field has another name in both.
ASIDE: Final = {"exclude": True}

#: Controls that JSON may have as they are, though terminals obey them.
_CONTROLS: Final = re.compile("[\x7f-\x9f]")


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
    Return *value* as JSON: instants as RFC 3339 in UTC, ids as text, controls escaped.

    Args:
        value: Anything that JSON has, aware datetimes, UUIDs, and dataclasses.
        indent: Spaces per level. None: all on one line.

    Raises:
        TypeError: *value* contains something else.

    >>> write_json({"by": "Zoë", "at": datetime.fromisoformat("2026-11-23T07:00+01")})
    '{"by": "Zoë", "at": "2026-11-23T06:00:00Z"}'
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=_as_text)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def get_members(value: object) -> dict[str, Any]:
    """Return the members of the object that a dataclass is in JSON."""
    members = _name_members(type(value))  # type: ignore[arg-type]  # an object
    return {member: getattr(value, name) for name, member in members}


def _as_text(value: object) -> object:
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if is_dataclass(value):
        return get_members(value)
    raise TypeError(f"{value!r} has no JSON form")


@cache
def _name_members(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a dataclass that JSON has, and how it calls them."""
    return tuple(
        (each.name, each.metadata.get("serialization_alias", each.name))
        for each in fields(kind)
        if not each.metadata.get("exclude")
    )
