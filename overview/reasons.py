"""
What states and reasons mean, in the words that every face and docs/operations.md use.

They are for people who know neither the code nor the tables. The ``reason`` values
themselves are in models/operation_state.py; the answers of ``why`` about an instant are
in actions/explaining/why.py. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from models.operation_state import OperationState, Reason


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
        return self.detail if self.reason is None else explain_reason(self.reason)


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


def explain_reason(reason: Reason) -> str:  # noqa: C901, PLR0911, PLR0912 - a list
    """
    Return why an operation with *reason* did not succeed, or waits.

    >>> explain_reason(Reason.CANCELED)
    'somebody canceled it'
    """
    match reason:
        case Reason.OVERLAP:
            return (
                "an earlier run of the action (for the same user) was not final, and"
                " overlap is skip"
            )
        case Reason.QUEUE_FULL:
            return (
                "a hundred runs of the action (for the same user) were already waiting,"
                " and overlap is queue"
            )
        case Reason.OUTAGE:
            return (
                "it was older than the look-back when a scheduler came back, and"
                " catch_up does not include it"
            )
        case Reason.RECORDED_LATE:
            return "its event was recorded more than a day after the occurrence"
        case Reason.WORKER_LOST:
            return "its worker died or lost contact; failed after the last attempt"
        case Reason.STEP_FAILED:
            return "a step failed; pending if another attempt will follow"
        case Reason.PROCESS_KILLED:
            return "it killed two worker processes, most likely for lack of memory"
        case Reason.MAIL_SERVER_AWAY:
            return (
                "the mail server does not answer or hangs; the operation waits, and"
                " this does not count as an attempt"
            )
        case Reason.PLATFORM:
            return (
                "the platform of Minutehand itself fails: the workspace is full or not"
                " mounted, a grant is missing, or memory is short; the operation waits"
                " until that is mended"
            )
        case Reason.TASK:
            return (
                "it has sent a task of the user's own, and waits for its end; no worker"
                " is held meanwhile"
            )
        case Reason.TIME_LIMIT:
            return "it ran longer than its queue allows"
        case Reason.CANCELED:
            return "somebody canceled it"
        case Reason.ACTION_DELETED:
            return "its action was deleted after it was recorded"
        case Reason.ACTION_INACTIVE:
            return "its action was switched off after it was recorded"
        case Reason.RESTORED:
            return (
                "it was live in a backup that was restored, or came due between the"
                " backup and its restoration; it may have run in the time that was lost"
            )
        case Reason.NO_LONGER_TRUE:
            return "its cause is gone: the user it was to remind has come back"
        case _:
            assert_never(reason)


def explain_state(state: OperationState) -> str:  # noqa: PLR0911 - a list
    """
    Return what it means that an operation is in *state*.

    >>> explain_state(OperationState.SKIPPED)
    'deliberately not run; the reason says why; a backfill makes it pending again'
    """
    match state:
        case OperationState.PENDING:
            return (
                "recorded; waiting for its time, for the broker, for another operation"
                " that must end first, or for the end of a task"
            )
        case OperationState.QUEUED:
            return "handed to the broker, but not yet taken by a worker"
        case OperationState.RUNNING:
            return "taken by a worker, which renews its lease while it works"
        case OperationState.SUCCEEDED:
            return (
                "every step succeeded; mails resend makes it pending again, only for"
                " the mails to resend"
            )
        case OperationState.FAILED:
            return (
                "a step failed for good, or every attempt was lost; operations retry"
                " makes it pending again"
            )
        case OperationState.CANCELED:
            return (
                "somebody canceled it, or its action was deleted or switched off;"
                " operations retry makes it pending again"
            )
        case OperationState.SKIPPED:
            return (
                "deliberately not run; the reason says why; a backfill makes it"
                " pending again"
            )
        case OperationState.MISSED:
            return (
                "not run because no scheduler led in time; one row for a whole outage,"
                " with first, last and count"
            )
        case _:
            assert_never(state)
