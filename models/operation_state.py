"""
The states of operations and steps, and the moves between them. Pure.

docs/operations.md draws the same table; a test compares the two.
"""

from __future__ import annotations

from enum import StrEnum


class OperationState(StrEnum):
    """Where an operation stands."""

    PENDING = "pending"  # recorded, waiting to be sent
    QUEUED = "queued"  # handed to the broker
    RUNNING = "running"  # claimed by a worker, under a lease
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"
    MISSED = "missed"


class StepState(StrEnum):
    """Where a step stands."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


class Queue(StrEnum):
    """What carries an operation: a Celery queue of ours, or one of the users' own."""

    QUICK = "quick"
    HEAVY = "heavy"
    # The users' own queues: the leader sends their tasks itself.
    TASKS = "tasks"
    # Celery's own default queue: the scheduler's maintenance (metatask_schedule).
    DEFAULT = "celery"


#: Lanes of each queue at the broker, from which workers take in turns. Lane 0 is for
#: operations within their app's share of the slots. Those that exceed it go to one of
#: the other lanes, which is always the same one for an app.
LANES = {Queue.QUICK: 5, Queue.HEAVY: 1, Queue.DEFAULT: 1}

#: The queues that our workers take.
WORKER_QUEUES = tuple(LANES)


class Mark(StrEnum):
    """What a row is called that is in more than its state."""

    RETRYING = "retrying"  # pending, and tried before
    UNCERTAIN = "uncertain"  # some of its mails may or may not have been sent


class Trigger(StrEnum):
    """What caused an operation."""

    SCHEDULE = "schedule"
    EVENT = "event"
    MANUAL = "manual"
    NOTICE = "notice"  # reports that other operations failed, or work again
    BACKFILL = "backfill"  # somebody asked for a past occurrence to run after all
    ACTION = "action"  # a run of another action ended


class Overlap(StrEnum):
    """What happens to an occurrence while the previous run of its action is live."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class Reason(StrEnum):
    """Why an operation did not succeed; free text may follow after ": "."""

    OVERLAP = "overlap"
    QUEUE_FULL = "queue full"
    OVERTAKEN = "overtaken"
    OUTAGE = "outage"
    RECORDED_LATE = "recorded late"
    WORKER_LOST = "worker lost"
    STEP_FAILED = "step failed"
    PROCESS_KILLED = "process killed"
    MAIL_SERVER_AWAY = "mail server away"
    PLATFORM = "platform"
    TASK = "waits for a task"
    TIME_LIMIT = "time limit"
    CANCELED = "canceled"
    ACTION_DELETED = "action deleted"
    ACTION_INACTIVE = "action inactive"
    NO_LONGER_TRUE = "no longer true"
    UNCHANGED = "unchanged"
    RESTORED = "restored"


#: Not final: still to be done. An overlap is with an operation in one of these.
LIVE_STATES = frozenset(
    {OperationState.PENDING, OperationState.QUEUED, OperationState.RUNNING}
)

#: Final states in which what was due was not done.
TROUBLED_STATES = frozenset({OperationState.FAILED, OperationState.MISSED})

#: Only a retry changes these; it reopens the same row with the same id.
FINAL_STATES = frozenset(OperationState) - LIVE_STATES

#: Final states of what did not do what it was to do, whoever wanted that.
UNSUCCESSFUL_STATES = FINAL_STATES - {OperationState.SUCCEEDED}

#: The ends of a run after which another action may run, by its ``on``. What is skipped
#: or missed never began, so it does not end.
ENDINGS = {
    "success": frozenset({OperationState.SUCCEEDED}),
    "failure": frozenset({OperationState.FAILED}),
    "end": frozenset(
        {OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELED}
    ),
}

#: Of steps: still to be done.
OPEN_STEPS = frozenset({StepState.PENDING, StepState.RUNNING})

_S = OperationState


def is_awaiting(reason: str | None) -> bool:
    """Tell whether *reason*, of a pending operation, says that a task is waited for."""
    return reason is not None and reason.startswith(Reason.TASK)


#: Every allowed move. None is the state before the row exists.
TRANSITIONS: dict[OperationState | None, frozenset[OperationState]] = {
    None: frozenset({_S.PENDING, _S.SKIPPED, _S.MISSED}),
    # to running: a worker claimed it before it was marked as sent; to a final state:
    # its task ended, or was sent and is not waited for, or cannot be sent
    _S.PENDING: frozenset(
        {_S.QUEUED, _S.RUNNING, _S.SUCCEEDED, _S.FAILED, _S.CANCELED, _S.SKIPPED}
    ),
    # back to pending: the broker lost the message, or another heavy operation runs;
    # to succeeded or failed: its task ended, which a lost worker had sent
    _S.QUEUED: frozenset(
        {_S.PENDING, _S.RUNNING, _S.SUCCEEDED, _S.FAILED, _S.CANCELED}
    ),
    # back to pending: a retry with back-off, a task that is waited for, a lost worker,
    # or a warm shutdown;
    # to running: another worker takes over when the lease has run out
    _S.RUNNING: frozenset(
        {_S.PENDING, _S.RUNNING, _S.SUCCEEDED, _S.FAILED, _S.CANCELED, _S.SKIPPED}
    ),
    _S.FAILED: frozenset({_S.PENDING}),  # operations retry
    _S.CANCELED: frozenset({_S.PENDING}),  # operations retry
    _S.SUCCEEDED: frozenset({_S.PENDING}),  # mails resend
    _S.SKIPPED: frozenset({_S.PENDING}),  # a backfill
    _S.MISSED: frozenset(),
}


class MailState(StrEnum):
    """The states in which a mail is found."""

    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
