"""
Why something ran, or did not, at an instant. Pure.

Answers from the revisions of the action and the decisions that were recorded:
there is no instant, past or future, without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from actions.explaining.expected_events import EventRule, read_event_rule
from actions.explaining.recorded import (
    RecordedEvent,
    RecordedOperation,
    Revision,
    find_exit,
    find_superseding,
)
from actions.occurrences import parse_timing
from actions.when.searching import find_last, find_occurrences
from models.errors import RuleError
from models.operation_state import OperationState, Reason
from models.revision import Change

_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)

#: How far the nearest due instants are looked for.
_NEAREST_WITHIN = timedelta(days=366 * 5)


class Verdict(StrEnum):
    """What happened at the instant, in one word."""

    RAN = "ran"
    RUNNING = "running"
    WAITING = "waiting"
    SKIPPED = "skipped"
    MISSED = "missed"
    CANCELED = "canceled"
    WILL_RUN = "will run"
    NOT_DUE = "not due"
    NOT_EFFECTIVE = "not effective yet"
    PAUSED = "paused"
    INACTIVE = "inactive"
    QUARANTINED = "quarantined"
    DELETED = "deleted"
    SUPERSEDED = "superseded"
    UNREADABLE = "unreadable"
    UNDECIDED = "not decided yet"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class History:
    """
    All that is known of an action around an instant.

    Args:
        next_due_at: The first instant that is not decided; None: never again.

        events: Those that may have led to occurrences of that minute.

        hindrances: What those of the operations wait for that are not claimed yet.

        paused_until: When a pause that it is in ends by itself; None: it is in none, or
            in one without an end.
    """

    uid: str
    name: str
    quarantine_reason: str | None
    revisions: tuple[Revision, ...]
    operations: tuple[RecordedOperation, ...]
    last_claims: dict[str, datetime]
    last_tick_at: datetime | None
    now: datetime
    next_due_at: datetime | None = None
    events: Sequence[RecordedEvent] = ()
    hindrances: Mapping[UUID, str] = field(default_factory=dict)
    paused_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """
    Why, for people and for programs.

    Args:
        operation_id: If there is one.

        lag: From the occurrence to the start of the run.

        previous: Nearest occurrence before, aware UTC; None if there is none.

        following: Nearest occurrence after, aware UTC; None if there is none.
    """

    verdict: Verdict
    text: str
    operation_id: UUID | None = None
    lag: timedelta | None = None
    previous: datetime | None = None
    following: datetime | None = None

    def as_json(self, action_uid: str) -> dict[str, object]:
        """Return the documented object for an answer about *action_uid*."""
        lag = self.lag
        return {
            "action_uid": action_uid,
            "verdict": self.verdict.value,
            "text": self.text,
            "operation": self.operation_id,
            "lag_s": None if lag is None else lag.total_seconds(),
            "previous": self.previous,
            "following": self.following,
        }


#: The answer for an action that is out of the tick, by the change that took it out.
EXIT_WORDS = {
    Change.DELETED: (Verdict.DELETED, "the action was deleted"),
    Change.PAUSED: (Verdict.PAUSED, "the action was paused"),
    Change.QUARANTINED: (Verdict.QUARANTINED, "the action could not be read"),
}


def explain(history: History, at: datetime) -> list[Answer]:
    """
    Answer why the action ran or did not in the minute of *at*.

    Args:
        history: Its decisions cover that minute.

        at: Aware, any zone.

    Returns:
        One answer for each operation of that minute (event-driven actions have one
        for each user); else exactly one.
    """
    minute = at.replace(second=0, microsecond=0)
    here = [
        operation
        for operation in history.operations
        if minute <= operation.occurrence < minute + _MINUTE
        and operation.missed_range is None
    ]
    if here:
        return [_explain_operation(history, operation) for operation in here]
    return [_explain_absence(history, at, minute)]


def _explain_operation(history: History, operation: RecordedOperation) -> Answer:
    state = OperationState(operation.state)
    lag = (
        None
        if operation.started_at is None
        else operation.started_at - operation.occurrence
    )
    who = "" if operation.user_id is None else f" for user {operation.user_id}"
    why = "" if operation.reason is None else f" ({operation.reason})"
    match state:
        case OperationState.PENDING:
            holds = history.hindrances.get(operation.id, "the next look of the leader")
            verdict = Verdict.WAITING
            text = f"recorded{who}, waits to be sent{why}: {holds}"
        case OperationState.QUEUED:
            verdict = Verdict.WAITING
            taken = _explain_queue(history, operation)
            text = f"sent{who} to queue {operation.queue}, {taken}"
            if line := history.hindrances.get(operation.id):
                text += f"; it is {line}"
        case OperationState.RUNNING:
            verdict, text = Verdict.RUNNING, f"runs{who} now"
        case OperationState.SUCCEEDED | OperationState.FAILED:
            verdict, text = Verdict.RAN, f"it {state}{who}{why}"
        case OperationState.CANCELED:
            verdict, text = Verdict.CANCELED, f"was canceled{who}{why}"
        case OperationState.SKIPPED:
            verdict, text = Verdict.SKIPPED, f"was skipped{who}{why}"
        case OperationState.MISSED:
            verdict, text = Verdict.MISSED, f"was missed{who}{why}"
        case _:
            assert_never(state)
    if operation.recorded_at < operation.occurrence:
        text += f"; {_told_ahead(operation)}"
    return Answer(verdict, text, operation.id, lag)


def _told_ahead(operation: RecordedOperation) -> str:
    """Say of a decision that was made before its time why it could be."""
    at = f"{operation.recorded_at:%F %T}Z"
    return f"decided at {at} by a tick that was told another time"


def _explain_queue(history: History, operation: RecordedOperation) -> str:
    claimed_at = history.last_claims.get(operation.queue)
    if claimed_at is None:
        return "and no worker has ever taken anything from it: is one running?"
    if operation.sent_at is not None and claimed_at < operation.sent_at:
        return f"and no worker has taken anything from it since {claimed_at:%F %T}Z"
    return "whose workers are busy"


def _explain_absence(history: History, at: datetime, minute: datetime) -> Answer:
    in_force = [each for each in history.revisions if each.recorded_at <= at]
    if not in_force:
        first = history.revisions[0]
        since = f"{first.recorded_at:%F %T}Z"
        verdict, text = (
            (Verdict.NOT_EFFECTIVE, f"the action did not exist before {since}")
            if first.number == 1
            else (Verdict.UNEXPLAINED, f"what it was before {since} has been pruned")
        )
        return Answer(verdict, text)
    revision = in_force[-1]
    gone_at = _get_deleted_at(history)
    if gone_at is not None and gone_at <= at:
        return Answer(Verdict.DELETED, f"the action was deleted at {gone_at:%F %T}Z")
    if revision.timing is None:
        return _explain_event_absence(history, minute, in_force)
    try:
        schedule = parse_timing(revision.timing)
    except RuleError as error:
        out = _explain_out(history, revision, in_force, at)
        unreadable = Verdict.UNREADABLE, f"the rule cannot be read: {error}"
        return Answer(*(out or unreadable))
    due = find_occurrences(schedule, minute, minute + _MINUTE, limit=1)
    previous = find_last(schedule, minute - _NEAREST_WITHIN, minute - _SECOND)
    following = schedule.next_from(minute + _MINUTE)
    text = "the rule is not due at this minute"
    if gone_at is not None:
        text += f"; the action was deleted at {gone_at:%F %T}Z"
        if following is not None and following >= gone_at:
            following = None
    if not due:
        return Answer(
            Verdict.NOT_DUE,
            text,
            previous=previous,
            following=following,
        )
    due_at = schedule.due_at(due[0], history.uid)
    verdict, text, operation_id = _explain_undone(history, revision, due[0], due_at)
    return Answer(verdict, text, operation_id, None, previous, following)


def _get_deleted_at(history: History) -> datetime | None:
    """Return when the action was deleted, if it was; nothing comes after that."""
    last = history.revisions[-1]
    return last.recorded_at if last.change == Change.DELETED else None


def _explain_event_absence(
    history: History, minute: datetime, in_force: Sequence[Revision]
) -> Answer:
    """Say why no event made an operation of that minute."""
    revision = in_force[-1]
    out = _explain_out(history, revision, in_force, minute)
    if out is not None:
        return Answer(*out)
    rule = read_event_rule(revision.document)
    end = minute + _MINUTE
    for event in history.events:
        occurrence = None if rule is None else rule.get_occurrence(event)
        if occurrence is not None and minute <= occurrence < end:
            due_at = max(occurrence, event.recorded_at)
            verdict, text, operation_id = _explain_undone(
                history, revision, occurrence, due_at
            )
            if verdict is Verdict.UNEXPLAINED:
                verdict = Verdict.NOT_DUE
                text = "the recipients leave the user out, or the user is gone"
            return Answer(verdict, f"user {event.user_id}: {text}", operation_id)
    bounds = _explain_bounds(rule, minute)
    if bounds is not None:
        return bounds
    so_far = "no event so far leads" if minute > history.now else "no event led"
    return Answer(Verdict.NOT_DUE, f"{so_far} to an occurrence at this minute")


def _explain_bounds(rule: EventRule | None, minute: datetime) -> Answer | None:
    """Say that there is nothing before ``starts_at``, or from ``ends_at`` on."""
    if rule is None:
        return None
    starts_at, ends_at = rule.action.starts_at, rule.action.ends_at
    if starts_at is not None and minute + _MINUTE <= starts_at:
        text = f"the rule begins at {starts_at.astimezone(UTC):%F %T}Z (starts_at)"
        return Answer(Verdict.NOT_EFFECTIVE, text)
    if ends_at is not None and minute >= ends_at:
        text = f"the rule ended at {ends_at.astimezone(UTC):%F %T}Z (ends_at)"
        return Answer(Verdict.NOT_DUE, text)
    return None


def _explain_out(
    history: History, revision: Revision, in_force: Sequence[Revision], at: datetime
) -> tuple[Verdict, str] | None:
    """Say why an action is out of the tick under *revision* *at* an instant, if so."""
    left = find_exit(in_force)
    until = history.paused_until
    if left is not None and left.change == Change.PAUSED and until is not None:
        # No revision says yet that a pause with an end will be over.
        left = None if until <= at and left is find_exit(history.revisions) else left
    if left is not None:
        verdict, text = EXIT_WORDS[Change(left.change)]
        detail = "" if left.changed_by is None else f" by {left.changed_by}"
        if verdict is Verdict.QUARANTINED:
            detail = f": {history.quarantine_reason}"
        if verdict is Verdict.PAUSED:
            why = "" if left.note is None else f" ({left.note})"
            detail += f"{why}; what comes due meanwhile is not made up for"
        return verdict, f"{text} at {left.recorded_at:%F %T}Z{detail}"
    if not revision.active:
        return (
            Verdict.INACTIVE,
            f"the action is not active since revision {in_force[-1].number}",
        )
    return None


def _explain_undone(  # noqa: PLR0911 - one return for each answer
    history: History, revision: Revision, occurrence: datetime, due_at: datetime
) -> tuple[Verdict, str, UUID | None]:
    """Say why an occurrence of the rule has no operation of its own."""
    for operation in history.operations:
        missed = operation.missed_range
        if missed is not None and missed[0] <= occurrence <= missed[1]:
            return Verdict.MISSED, _explain_missed(operation, *missed), operation.id
    in_force = [r for r in history.revisions if r.number <= revision.number]
    out = _explain_out(history, revision, in_force, occurrence)
    if out is not None:
        return *out, None
    effective = occurrence if revision.timing is not None else due_at
    if effective < revision.effective_from:
        text = f"the rule is in effect since {revision.effective_from:%F %T}Z only"
        return Verdict.NOT_EFFECTIVE, text, None
    if due_at > history.now:
        following = history.next_due_at
        passed_over = following is None or following > due_at
        if passed_over and revision.timing is not None:
            text = "a tick that was told a later time has passed over it"
            return Verdict.MISSED, text, None
        return Verdict.WILL_RUN, "due then, unless the action changes", None
    later = [r for r in history.revisions if r.number > revision.number]
    superseding = find_superseding(later, effective, due_at)
    if superseding is not None:
        return *_explain_superseding(history, superseding), None
    tick = history.last_tick_at
    if tick is None or due_at > tick:
        since = "never" if tick is None else f"{tick:%F %T}Z"
        return Verdict.UNDECIDED, f"no scheduler has ticked since (last: {since})", None
    text = "no decision is recorded; it may have been pruned. Run: minutehand audit"
    return Verdict.UNEXPLAINED, text, None


def _explain_missed(
    operation: RecordedOperation, first: datetime, last: datetime
) -> str:
    """Say why what was due from *first* to *last* did not run."""
    if operation.reason is not None and operation.reason.startswith(Reason.RESTORED):
        return (
            f"what was due from {first:%F %T}Z to {last:%F %T}Z lies between a backup "
            f"and the moment it was put back, {operation.recorded_at:%F %T}Z: it may "
            "have run in what was lost"
        )
    if operation.recorded_at < last:
        return (
            f"what was due from {first:%F %T}Z to {last:%F %T}Z was "
            f"{_told_ahead(operation)}, which looked back no further"
        )
    return (
        f"nobody led from {first:%F %T}Z to {last:%F %T}Z, "
        "and catch_up does not make up for it"
    )


def _explain_superseding(history: History, by: Revision) -> tuple[Verdict, str]:
    """Say what took over before an occurrence was decided."""
    out = _explain_out(history, by, [by], by.recorded_at)
    if out is not None:
        verdict, text = out
        return verdict, f"{text}, before this was decided"
    text = f"superseded by the edit at {by.recorded_at:%F %T}Z (revision {by.number})"
    return Verdict.SUPERSEDED, f"{text}, which came before it was decided"
