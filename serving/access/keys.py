"""
API keys, as they come in with requests: recognized, and who asks with them.

A key is shown once, ``mh_<id>_<secret><checksum>``; what is kept of it is its digest.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import zlib
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from models.database.engine import db_now, writing
from models.database.tables import api_keys
from models.role import Role
from serving.access.callers import Caller

#: How exactly the last use of a key is known. Each request notes it only if it was last
#: noted longer ago, so that asking writes next to nothing.
USES_APART = timedelta(minutes=1)

#: Random letters and digits: two keys never get the same one, and it fits a column.
ID_LENGTH = 12

_ID = re.compile(rf"mh_(?P<id>[0-9A-Za-z]{{{ID_LENGTH}}})_", re.ASCII)

#: By the clock of the database.
HAS_EXPIRED = sa.and_(
    api_keys.c.expires_at.is_not(None), api_keys.c.expires_at <= db_now()
)

_USE_IS_DUE = sa.or_(
    api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at <= db_now(-USES_APART)
)

_SELECT_KEY = sa.select(
    api_keys, HAS_EXPIRED.label("has_expired"), _USE_IS_DUE.label("use_is_due")
).where(api_keys.c.id == sa.bindparam("key_id"))

_NOTE_USE = (
    sa.update(api_keys)
    .where(api_keys.c.id == sa.bindparam("key_id"), _USE_IS_DUE)
    .values(last_used_at=db_now())
)


@dataclass(frozen=True, slots=True)
class RefusedKey:
    """Why a key is not taken, in words for whoever sent it."""

    why: str


def read_key(text: str) -> str | None:
    """
    Return the id in a key, or None if *text* is none: a typo, a part, something else.

    The checksum tells; no database is asked.
    """
    match = _ID.match(text)
    return match["id"] if match is not None and is_secret(text, match[0]) else None


def recognize(connection: sa.Connection, text: str) -> Caller | RefusedKey:
    """
    Return who asks with the key *text*, or why it is not taken.

    One query, by the key's id; none if *text* is no key. That a key has expired or was
    revoked is told only to whoever has all of it.
    """
    key_id = read_key(text)
    if key_id is None:
        return RefusedKey(
            "this is not an API key, or it has a typo: its checksum is wrong"
        )
    row = connection.execute(_SELECT_KEY, {"key_id": key_id}).one_or_none()
    if row is None or not is_of_digest(text, row.digest):
        return RefusedKey("there is no such API key")
    if row.revoked_at is not None:
        return RefusedKey("the API key was revoked")
    if row.has_expired:
        return RefusedKey("the API key has expired")
    who = make_caller_name(row.name, key_id), Role(row.role), row.app
    return Caller(key_id, *who, use_is_due=bool(row.use_is_due))


def make_caller_name(name: str | None, key_id: str | None) -> str:
    """Return what the record of changes calls whoever asks with a key."""
    return name or (f"key {key_id}" if key_id else "sign-in link")


def note_use(engine: sa.Engine, caller: Caller) -> None:
    """
    Note that the key of *caller* was used, at most once in USES_APART.

    In a transaction of its own, and after the request: it is not worth a wait.
    """
    if caller.key_id is None or not caller.use_is_due:
        return
    with writing(engine) as connection:
        connection.execute(_NOTE_USE, {"key_id": caller.key_id})


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
