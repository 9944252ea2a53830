"""Cursors that nobody was given: they have the right digest, and any position."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

Position = list[Any]

#: The least and the largest value of each kind of part; what is none, is refused before
#: any list is asked.
_LEAST = {
    "t": "0001-01-01T00:00:00+00:00",
    "u": "00000000-0000-0000-0000-000000000000",
    "i": 0,
    "s": "",
}
_LARGEST = {
    "t": "9999-12-31T23:59:59.999999+00:00",
    "u": "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "i": 2**63 - 1,
    "s": "\U0010ffff",
}

#: Those of the lists that there are, and of none.
_SHAPES = ("", "i", "s", "t", "u", "ss", "sss", "ti", "ts", "tu", "tss", "ttu", "tuss")

#: Of any list, all but two or three are wrong.
POSITIONS: tuple[Position, ...] = (
    *(
        [[kind, values[kind]] for kind in shape]
        for shape in _SHAPES
        for values in (_LEAST, _LARGEST)
    ),
    [["i", -1]],
)


def make_cursor(path: str, filters: Mapping[str, str], position: Position) -> str:
    """
    Return a cursor that reads as one of the list at *path*, with these *filters*.

    It claims to go on at *position*: kind and value of each part.
    """
    asked = json.dumps([path, sorted(map(list, filters.items()))])
    digest = hashlib.sha256(asked.encode()).hexdigest()[:12]
    text = json.dumps([digest, *position])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
