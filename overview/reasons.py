"""
What states and reasons mean, in the words that every face and docs/operations.md use.

The words are for people who know neither code nor tables. What stands in an operation's
``reason`` itself is in models/operation_state.py; what ``why`` answers about an instant
is in actions/explaining/why.py. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from models.operation_state import OperationState, Reason


@dataclass(frozen=True, slots=True)
class ReadReason:
    """
    A reason as it stands in an operation.

    Args:
        reason: None: a newer version of the program wrote one that this does not know.

        detail: What was written behind it; "" if nothing was.
    """

    reason: Reason | None
    detail: str

    @property
    def meaning(self) -> str:
        """What it means, in a sentence; of an unknown one what was written."""
        return self.detail if self.reason is None else explain_reason(self.reason)


def read_reason(text: str) -> ReadReason:
    """
    Return what stands in the ``reason`` of an operation.

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
                "a former run of the action (for the same user) was not final, and"
                " overlap is skip"
            )
        case Reason.QUEUE_FULL:
            return (
                "a hundred runs of the action (for the same user) were waiting already,"
                " and overlap is queue"
            )
        case Reason.OUTAGE:
            return (
                "it was due longer ago than the window when a scheduler came back, and"
                " catch_up does not ask for it"
            )
        case Reason.RECORDED_LATE:
            return "its event was recorded more than a day after the occurrence"
        case Reason.WORKER_LOST:
            return "its worker died or was cut off; failed after the last attempt"
        case Reason.STEP_FAILED:
            return "a step failed; pending while another attempt may help"
        case Reason.PROCESS_KILLED:
            return "two processes died of it, most likely for want of memory"
        case Reason.MAIL_SERVER_AWAY:
            return (
                "the mail server does not answer or hangs; the operation waits, and no"
                " attempt counts"
            )
        case Reason.PLATFORM:
            return (
                "what Minutehand itself runs on does not serve: the workspace is full"
                " or not mounted, a grant is missing, memory is out; it waits as long"
                " as that takes"
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
                "it was live in a backup that was put back, or due between the backup"
                " and that moment: it may have run in what was lost"
            )
        case Reason.NO_LONGER_TRUE:
            return "what it was for is over: the user it would remind has come back"
        case _:
            assert_never(reason)


def explain_state(state: OperationState) -> str:  # noqa: PLR0911 - a list
    """
    Return what it means that an operation is in *state*.

    >>> explain_state(OperationState.SKIPPED)
    'not run on purpose; the reason says why'
    """
    match state:
        case OperationState.PENDING:
            return (
                "recorded; waits for its time, for the broker, or for another operation"
                " that must end first"
            )
        case OperationState.QUEUED:
            return "handed to the broker, not yet taken by a worker"
        case OperationState.RUNNING:
            return "taken by a worker, which renews its lease while it works"
        case OperationState.SUCCEEDED:
            return (
                "every step succeeded; mails resend makes it pending again, for some"
                " mails alone"
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
            return "not run on purpose; the reason says why"
        case OperationState.MISSED:
            return (
                "not run because nobody led in time; one row for a whole outage, with"
                " first, last and count"
            )
        case _:
            assert_never(state)
