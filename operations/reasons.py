"""
What states and reasons mean, in the words that every face and docs/operations.md use.

They are for people who know neither the code nor the tables. The values themselves are
in models/operation_state.py; what is said of one operation follows from this in
overview/why/. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
    Reason.TIME_LIMIT: "it ran longer than its queue allows",
    Reason.CANCELED: "somebody canceled it",
    Reason.ACTION_DELETED: "its action was deleted after it was recorded",
    Reason.ACTION_INACTIVE: "its action was switched off after it was recorded",
    Reason.RESTORED: (
        "it was live in a backup that was restored, or came due between the"
        " backup and its restoration; it may have run in the time that was lost"
    ),
    Reason.NO_LONGER_TRUE: "its cause is gone: the user it was to remind has come back",
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
