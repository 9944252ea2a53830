"""Make folder names from names that users chose. Pure."""

from __future__ import annotations

import hashlib
import string
from urllib.parse import quote

#: Characters that are kept. Capitals are not: on file systems that ignore case, two
#: domains would share a folder.
_KEPT = string.ascii_lowercase + string.digits + "-_"

#: Characters of a folder name; file systems allow 255 bytes.
_LONGEST = 150


def encode_name(name: str) -> str:
    """
    Return *name* as one folder name: never a path, never hidden, never too long.

    Different names give different folders on every file system.

    >>> encode_name("sales")
    'sales'
    >>> encode_name("../Sales")
    '%2e%2e%2f%53ales'
    """
    encoded = "".join(
        letter if letter in _KEPT else _encode_letter(letter) for letter in name
    )
    if 0 < len(encoded) <= _LONGEST:
        return encoded

    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{encoded[: _LONGEST - len(digest) - 1]}~{digest}"


def _encode_letter(letter: str) -> str:
    # quote() always keeps letters and dots, so these are encoded by hand.
    quoted = quote(letter, safe="")
    return quoted.lower() if quoted != letter else f"%{ord(letter):02x}"
