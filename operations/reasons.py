"""
What states and reasons mean, and which failures have the same cause. Pure.

The words are those that every face and docs/operations.md use, for people who know
neither the code nor the tables. The values themselves are in models/operation_state.py;
what is said of one operation follows from this in overview/why/.

Ids, numbers, quoted texts and addresses vary among errors of one cause: a notice, Now
and the list of operations leave them out, here as text and as conditions on rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from models.operation_state import OperationState, Reason

#: Why an operation did not succeed, or waits.
REASONS: Final[Mapping[Reason, str]] = {
    Reason.OVERLAP: (
        "an earlier run of the action (for the same user) was not final, and"
        " overlap is skip"
    ),
    Reason.QUEUE_FULL: (
        "a hundred runs of the action (for the same user) were already waiting,"
        " and overlap is queue"
    ),
    Reason.OVERTAKEN: (
        "its rule is due more often than once a minute, and a later occurrence was"
        " due by the same look, too; one row for all that it overtook"
    ),
    Reason.OUTAGE: (
        "it was older than the look-back when a scheduler came back, and"
        " catch_up does not include it"
    ),
    Reason.RECORDED_LATE: "its event was recorded more than a day after the occurrence",
    Reason.WORKER_LOST: (
        "its worker died or lost contact; failed after the last attempt"
    ),
    Reason.STEP_FAILED: "a step failed; pending if another attempt will follow",
    Reason.PROCESS_KILLED: (
        "it killed two worker processes, most likely for lack of memory"
    ),
    Reason.MAIL_SERVER_AWAY: (
        "the mail server does not answer or hangs; the operation waits, and"
        " this does not count as an attempt"
    ),
    Reason.PLATFORM: (
        "the platform of Minutehand itself fails: the workspace is full or not"
        " mounted, a grant is missing, or memory is short; the operation waits"
        " until that is mended"
    ),
    Reason.TASK: (
        "it has sent a task of the user's own, and waits for its end; no worker"
        " is held meanwhile"
    ),
    Reason.TIME_LIMIT: (
        "it ran longer than its queue allows, by MINUTEHAND_QUICK_SOFT_LIMIT or"
        " MINUTEHAND_HEAVY_SOFT_LIMIT; a retry does the rest, and mails nobody twice"
    ),
    Reason.CANCELED: "somebody canceled it",
    Reason.ACTION_DELETED: "its action was deleted after it was recorded",
    Reason.ACTION_INACTIVE: "its action was switched off after it was recorded",
    Reason.RESTORED: (
        "it was live in a backup that was restored, or came due between the"
        " backup and its restoration; it may have run in the time that was lost"
    ),
    Reason.NO_LONGER_TRUE: "its cause is gone: the user it was to remind has come back",
    Reason.UNCHANGED: (
        "its refresh brought nothing new since the action last succeeded, and it goes"
        " on only then"
    ),
}

#: What it means that an operation is in a state.
STATES: Final[Mapping[OperationState, str]] = {
    OperationState.PENDING: (
        "recorded; waiting for its time, for the broker, for another operation"
        " that must end first, or for the end of a task"
    ),
    OperationState.QUEUED: "handed to the broker, but not yet taken by a worker",
    OperationState.RUNNING: "taken by a worker, which renews its lease while it works",
    OperationState.SUCCEEDED: (
        "every step succeeded; mails resend makes it pending again, only for"
        " the mails to resend"
    ),
    OperationState.FAILED: (
        "a step failed for good, or every attempt was lost; operations retry"
        " makes it pending again"
    ),
    OperationState.CANCELED: (
        "somebody canceled it, or its action was deleted or switched off;"
        " operations retry makes it pending again"
    ),
    OperationState.SKIPPED: (
        "deliberately not run; the reason says why; a backfill makes it pending again"
    ),
    OperationState.MISSED: (
        "not run because no scheduler led in time; one row for a whole outage,"
        " with first, last and count"
    ),
}


@dataclass(frozen=True, slots=True)
class ReadReason:
    """
    The reason of an operation, parsed.

    Args:
        reason: None: a newer version of the program wrote a reason unknown to this one.
        detail: The text after the reason; "" if there is none.
    """

    reason: Reason | None
    detail: str

    @property
    def meaning(self) -> str:
        """What the reason means, in a sentence; for an unknown one, its own text."""
        return self.detail if self.reason is None else REASONS[self.reason]


def read_reason(text: str) -> ReadReason:
    """
    Parse the ``reason`` of an operation.

    >>> read_reason("step failed: refresh")
    ReadReason(reason=<Reason.STEP_FAILED: 'step failed'>, detail='refresh')
    """
    head, _, detail = text.partition(": ")
    try:
        return ReadReason(Reason(head), detail)
    except ValueError:
        return ReadReason(None, text)


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
