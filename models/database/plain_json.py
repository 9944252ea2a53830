"""
JSON that every database gives back exactly as it was written, so that a hash holds.

PostgreSQL keeps the value of a number and not its text: 1e22 comes back as an integer,
-0.0 without its sign. And it has neither NaN nor the character NUL, nor half of a
surrogate pair.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from decimal import Decimal

from models.database.engine import format_utc

#: An escape of NUL; a pair of backslashes is one that an escape does not begin with.
_NUL = re.compile(r"\\\\|\\u0000")

_REPLACEMENT = "\ufffd"


def make_plain(value: object) -> object:
    """
    Return *value* as JSON that is read back as it was written.

    Instants and whatever else has no JSON form become text, and so do NaN and the
    infinities. A float without a fraction that is written with an exponent becomes the
    integer of the same digits, and NUL and unpaired surrogates become U+FFFD.

    >>> make_plain({"a": 1e22, "b": -0.0, "c": 1.50, "d": float("inf"), 5: (1, 2)})
    {'a': 10000000000000000000000, 'b': 0.0, 'c': 1.5, 'd': 'Infinity', '5': [1, 2]}
    """
    if value is None:
        return None
    text = _ENCODER.encode(value)
    if r"\u0000" in text:
        text = _NUL.sub(
            lambda found: _REPLACEMENT if found[0] != r"\\" else r"\\", text
        )
    plain: object = _DECODER.decode(replace_surrogates(text))
    return plain


def make_plain_text(text: str) -> str:
    """Return *text* without what PostgreSQL cannot store: NUL, unpaired surrogates."""
    return replace_surrogates(text).replace("\0", _REPLACEMENT)


def replace_surrogates(text: str) -> str:
    """Replace surrogates, which no UTF-8 has."""
    return re.sub("[\ud800-\udfff]", _REPLACEMENT, text)


def _read_float(text: str) -> float | int:
    if "e" in text:
        number = Decimal(text)
        if number == number.to_integral_value():
            return int(number)
    # there is no negative zero
    return float(text) + 0.0


def _as_text(value: object) -> str:
    return format_utc(value) if isinstance(value, datetime) else str(value)


# Made once: json.dumps and json.loads make one at each call, which takes longer than
# what they are called for.
_ENCODER = json.JSONEncoder(default=_as_text, ensure_ascii=False)
_DECODER = json.JSONDecoder(parse_float=_read_float, parse_constant=str)
