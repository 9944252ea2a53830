"""
How every face writes answers as JSON.

The ``as_json`` of the dataclasses in overview, actions and operations returns the
documented object, with instants and ids as Python objects; they become text here.
"""

from __future__ import annotations

import json
from datetime import datetime
from uuid import UUID

from models.fields.instants import format_instant


def write_json(value: object, *, indent: int | None = None) -> str:
    """
    Return *value* as JSON: instants as RFC 3339 in UTC, ids as text.

    Args:
        value: Anything that JSON has, and aware datetimes and UUIDs.

        indent: Spaces per level. None: all on one line.

    Raises:
        TypeError: *value* contains something else.

    >>> write_json({"by": "Zoë", "at": datetime.fromisoformat("2026-11-23T07:00+01")})
    '{"by": "Zoë", "at": "2026-11-23T06:00:00Z"}'
    """
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_as_text)


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, UUID):
        return str(value)
    msg = f"{value!r} has no JSON form"
    raise TypeError(msg)
