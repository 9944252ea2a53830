"""
Which failures have the same cause, as conditions on their rows. Pure.

Ids, numbers, quoted texts and addresses vary among errors of one cause, as for notices
(operations/notices/grouping.py); here, so that a database can look for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from operations.notices.grouping import find_constant

#: Letters of an error that are compared; the rest of a long one is not even read.
_COMPARED = 300

_ESCAPE = "/"


@dataclass(frozen=True, slots=True)
class Cause:
    """
    What all failures of one cause have in common.

    Args:
        reason: Pattern of LIKE for the reason. None: there is none.
        error: The same for the beginning of the error. None: there is none.
    """

    reason: str | None
    error: str | None


def make_cause(reason: str | None, error: str | None) -> Cause:
    """
    Return the cause of a failure.

    >>> make_cause("step failed: send_email", "send_email: no user 'u17'").error
    'send/_email: no user %'
    """
    first, *_ = (error or "").strip().splitlines() or [""]
    return Cause(
        None if reason is None else _make_pattern(reason[:_COMPARED]),
        None if not first else f"{_make_pattern(first[:_COMPARED]).rstrip('%')}%",
    )


def _make_pattern(text: str) -> str:
    constant = (
        part.replace(_ESCAPE, _ESCAPE * 2).replace("%", "/%").replace("_", "/_")
        for part in find_constant(text)
    )
    return "%".join(constant)


def has_cause(
    columns: ReadOnlyColumnCollection[str, Any], cause: Cause
) -> sa.ColumnElement[bool]:
    """Match operations that failed of *cause*."""
    start = sa.func.ltrim(sa.func.substr(columns.error, 1, _COMPARED + 100))
    return sa.and_(_is_like(columns.reason, cause.reason), _is_like(start, cause.error))


def _is_like(
    text: sa.ColumnElement[Any], pattern: str | None
) -> sa.ColumnElement[bool]:
    if pattern is None:
        return text.is_(None)
    return text.like(pattern, escape=_ESCAPE)
