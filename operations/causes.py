"""
Why operations failed, on one line, and which failures have the same cause. Pure.

Ids, numbers, quoted texts and addresses vary among errors of one cause: a notice, Now
and the list of operations leave them out, here as text and as conditions on rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

#: Ids, numbers, quoted texts and mail addresses vary among errors of the same cause.
VARYING = re.compile(
    r"""[0-9a-f]{8}-[0-9a-f-]{27}|\S+@\S+|'[^']*'|"[^"]*"|\b[0-9a-f]{12,}\b|\d+""",
    re.IGNORECASE,
)

_LONGEST_CAUSE = 300

#: Letters of an error that are compared; the rest of a long one is not even read.
_COMPARED = 300

_ESCAPE = "/"


def find_cause(reason: str | None, error: str | None) -> str:
    """Return why an operation did not succeed, on one line for people."""
    first, *_ = (error or "").strip().splitlines() or [""]
    text = clean_line(first) or clean_line(reason or "") or "unknown"
    if reason is not None and not first.startswith(reason) and ":" not in reason:
        # The error does not repeat a reason such as a lost worker.
        text = reason if text == reason else f"{reason}: {text}"
    return text if len(text) <= _LONGEST_CAUSE else f"{text[: _LONGEST_CAUSE - 1]}…"


def make_cause_key(cause: str) -> str:
    """
    Return the part of *cause* that is the same in all errors of one cause.

    >>> make_cause_key("send_email: no user 'u17' (attempt 3)")
    'send_email: no user # (attempt #)'
    """
    return VARYING.sub("#", cause)[:_LONGEST_CAUSE]


def clean_line(text: str) -> str:
    """Return *text* on one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


@dataclass(frozen=True, slots=True)
class CausePattern:
    """
    What all failures of one cause have in common.

    Args:
        reason: Pattern of LIKE for the reason. None: there is none.
        error: The same for the beginning of the error. None: there is none.
    """

    reason: str | None
    error: str | None


def make_cause(reason: str | None, error: str | None) -> CausePattern:
    """
    Return the cause of a failure.

    >>> make_cause("step failed: send_email", "send_email: no user 'u17'").error
    'send/_email: no user %'
    """
    first, *_ = (error or "").strip().splitlines() or [""]
    return CausePattern(
        None if reason is None else _make_pattern(reason[:_COMPARED]),
        None if not first else f"{_make_pattern(first[:_COMPARED]).rstrip('%')}%",
    )


def _make_pattern(text: str) -> str:
    constant = (
        part.replace(_ESCAPE, _ESCAPE * 2).replace("%", "/%").replace("_", "/_")
        for part in VARYING.split(text)
    )
    return "%".join(constant)


def has_cause(
    columns: ReadOnlyColumnCollection[str, Any], cause: CausePattern
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
