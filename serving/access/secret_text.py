"""
How secrets are written: made, read and compared without a database.

A secret has a prefix, by which scanners of source code find it, more random bits than
anybody can try, and a checksum, so that a typo is told from a key that was revoked, and
costs no query. Only its digest is stored: with that many random bits, a plain SHA-256
is as good as a slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import zlib

#: Nothing that a shell, a URL or a double click treats as the end of a word.
_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase

#: Letters of a secret: 178 random bits.
SECRET_LENGTH = 30

#: Letters of a checksum: 62 ** 6 is more than the 2 ** 32 values of a CRC-32.
CHECKSUM_LENGTH = 6

_ENDING = re.compile(
    rf"(?P<secret>[0-9A-Za-z]{{{SECRET_LENGTH}}})"
    rf"(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})",
    re.ASCII,
)


def make_letters(count: int) -> str:
    """Return *count* random letters and digits, with 5.95 random bits each."""
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


def make_secret(prefix: str) -> str:
    """
    Return a new secret that begins with *prefix*.

    >>> len(make_secret("mh_"))
    39
    """
    text = prefix + make_letters(SECRET_LENGTH)
    return text + _make_checksum(text)


def is_secret(text: str, prefix: str) -> bool:
    """
    Tell whether *text* could be a secret that begins with *prefix*.

    >>> text = make_secret("mh_")
    >>> is_secret(text, "mh_"), is_secret(text.swapcase(), "mh_")
    (True, False)
    """
    if not text.startswith(prefix):
        return False
    match = _ENDING.fullmatch(text, len(prefix))
    if match is None:
        return False
    return match["checksum"] == _make_checksum(text[:-CHECKSUM_LENGTH])


def make_digest(text: str) -> str:
    """Return what is stored of a secret: its SHA-256, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_of_digest(text: str, digest: str) -> bool:
    """Tell whether *digest* is that of *text*, in a time that tells nothing."""
    return hmac.compare_digest(make_digest(text), digest)


def _make_checksum(text: str) -> str:
    rest, letters = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        rest, place = divmod(rest, len(_LETTERS))
        letters = _LETTERS[place] + letters
    return letters
