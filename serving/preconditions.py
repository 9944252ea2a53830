"""Entity tags: what a caller has seen, and what there is now (RFC 9110, 13)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from models.errors import StaleError

#: One strong entity tag, or any.
_TAG = re.compile(r'"([!#-~]*)"')


class PreconditionRequiredError(StaleError):
    """A change came without If-Match."""


def find_expected(headers: Mapping[str, str]) -> str | None:
    """
    Return the one entity tag of If-Match without its quotes; None if it is ``*``.

    Raises:
        PreconditionRequiredError: There is no If-Match.
        StaleError: It is not one strong entity tag, so it can match nothing.
    """
    given = headers.get("if-match")
    if given is None:
        msg = (
            "a change must say which version it is of. Send the ETag of what you read"
            " as If-Match, or If-Match: * to overwrite whatever there is"
        )
        raise PreconditionRequiredError(msg, current=None)
    if given.strip() == "*":
        return None
    found = _TAG.fullmatch(given.strip())
    if found is None:
        msg = f'If-Match: {given[:80]} is not one strong entity tag, such as "7"'
        raise StaleError(msg, current=None)
    return found[1]


def read_revision(tag: str | None) -> int | None:
    """
    Return the revision that an entity tag is of; None for any.

    Raises:
        StaleError: No revision has such a tag.
    """
    if tag is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", tag):
        msg = f'no revision has the entity tag "{tag[:80]}"'
        raise StaleError(msg, current=None)
    return int(tag)
