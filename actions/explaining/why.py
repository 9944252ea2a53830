"""
Why an action ran at an instant, or did not run. Pure.

The answer comes from the action's revisions and its recorded decisions; every instant,
past or future, has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID
from zoneinfo import ZoneInfo

from actions.explaining.moves import (
    describe_departure,
    describe_origin,
    describe_origin_in,
)
from actions.explaining.recorded import (
    FormerAction,
    RecordedEvent,
    RecordedOperation,
    Revision,
    find_exit,
    find_in_force,
    find_superseding,
    read_event_rule,
    read_untimed,
)
from actions.occurrences import parse_timing, read_timing
from actions.previews.sentences import describe
from actions.when.searching import find_last, find_occurrences
from models.decision import EARLY_TICK, tell_cause, tell_end
from models.errors import RuleError
from models.expectations import tell_late
from models.fields.zone import load_zone
from models.json_form import ASIDE
from models.operation_state import OperationState, Trigger
from models.revision import Change
from models.scheduled_action import ScheduledActionModel
from models.units import show_instant
from models.when import AfterActionModel

_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)

#: How far back the previous occurrence is looked for.
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
    All that is known about an action around an instant.

    Args:
        next_due_at: The first instant that is not decided yet. None: it is never due
            again.
        events: The events that may have led to occurrences in that minute.
        told: Why each operation did not run or waits, a sentence without its end, as
            far as somebody asked.
        former: The action that it starts after. None: it starts after none.
        paused_until: When the action's pause ends by itself. None: it is not paused, or
            the pause has no end.
    """

    uid: str
    name: str
    quarantine_reason: str | None
    revisions: tuple[Revision, ...]
    operations: tuple[RecordedOperation, ...]
    last_tick_at: datetime | None
    now: datetime
    next_due_at: datetime | None = None
    events: Sequence[RecordedEvent] = ()
    told: Mapping[UUID, str] = field(default_factory=dict)
    paused_until: datetime | None = None
    former: FormerAction | None = None

    @property
    def zone(self) -> ZoneInfo | None:
        """That of the latest rule that can be read. None: there is none."""
        for revision in reversed(self.revisions):
            with suppress(RuleError):
                if revision.timing is not None:
                    return parse_timing(revision.timing).rules[0].zone
                action = read_untimed(revision.document)
                if action is not None and not isinstance(action.when, tuple):
                    return load_zone(action.when.timezone)
        return None

    def show(self, at: datetime) -> str:
        """Return what the clocks of the action show *at* an instant, and UTC."""
        return show_instant(at, self.zone)


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    """
    Why an action ran at an instant, or did not; times are aware UTC.

    Args:
        operation_id: The operation that the answer is about. None: there is none.
        occurrence: Of that operation. None: there is none, or it stands for several.
        lag_s: From the occurrence to the start of the run.
        previous: Nearest occurrence before. None: none since the action exists.
        following: Nearest occurrence after. None: there is none.
        zone: In which the rule is read. None: it cannot be.
    """

    action_uid: str
    verdict: Verdict
    text: str
    operation_id: UUID | None = field(metadata={"serialization_alias": "operation"})
    occurrence: datetime | None
    lag_s: float | None
    previous: datetime | None
    following: datetime | None
    zone: ZoneInfo | None = field(metadata=ASIDE)


def _answer(
    history: History,
    verdict: Verdict,
    text: str,
    operation_id: UUID | None = None,
    lag: timedelta | None = None,
    near: tuple[datetime | None, datetime | None] = (None, None),
) -> WhyAnswer:
    lag_s = None if lag is None else lag.total_seconds()
    about = operation_id, None, lag_s
    return WhyAnswer(history.uid, verdict, text, *about, *near, history.zone)


#: The answer for an action that no tick looks at, by the change that took it out.
EXIT_WORDS = {
    Change.DELETED: (Verdict.DELETED, "the action was deleted"),
    Change.PAUSED: (Verdict.PAUSED, "the action was paused"),
    Change.QUARANTINED: (Verdict.QUARANTINED, "the action could not be read"),
}


def explain(history: History, at: datetime) -> list[WhyAnswer]:
    """
    Say why the action ran in the minute of *at*, or did not run.

    A rule that is due more often is asked about the second.

    Args:
        history: Of the action; its decisions must cover that minute.
        at: Aware, any zone.

    Returns:
        One answer for each operation of that time (event-driven actions have one
        for each user); else exactly one.
    """
    begin = at.replace(microsecond=0)
    in_force = find_in_force(history.revisions, at)
    schedule = read_timing(in_force[-1].timing) if in_force else None
    unit = _SECOND if schedule is not None and schedule.is_below_minute else _MINUTE
    if unit is _MINUTE:
        begin = begin.replace(second=0)
    here = [
        operation
        for operation in history.operations
        if begin <= operation.occurrence < begin + unit
        and operation.covered_range is None
    ]
    if here:
        return [_explain_decided(history, operation) for operation in here]
    return [_explain_absence(history, at, begin, unit)]


def _explain_decided(history: History, operation: RecordedOperation) -> WhyAnswer:
    """Say what became of *operation*, and from which day it was moved."""
    answer = explain_operation(history, operation)
    decided_at = operation.recorded_at
    moved = describe_origin_in(history.revisions, operation.occurrence, decided_at)
    return replace(answer, text=answer.text + moved)


#: What became of an operation, by its state: in a word, and in some.
STATE_WORDS = {
    OperationState.PENDING: (Verdict.WAITING, "it waits to be sent"),
    OperationState.QUEUED: (Verdict.WAITING, "it waits for a worker"),
    OperationState.RUNNING: (Verdict.RUNNING, "it is running now"),
    OperationState.SUCCEEDED: (Verdict.RAN, "it succeeded"),
    OperationState.FAILED: (Verdict.RAN, "it failed"),
    OperationState.CANCELED: (Verdict.CANCELED, "it was canceled"),
    OperationState.SKIPPED: (Verdict.SKIPPED, "it was skipped"),
    OperationState.MISSED: (Verdict.MISSED, "it was missed"),
}


def _tell_state(history: History, operation: RecordedOperation) -> tuple[Verdict, str]:
    """Say what became of *operation*, and why, as every list of operations does."""
    verdict, text = STATE_WORDS[OperationState(operation.state)]
    told = history.told.get(operation.id)
    if told is None:
        return verdict, text
    if told.startswith("Waits"):
        return verdict, f"it {told[0].lower()}{told[1:]}"
    return verdict, f"{text}: {told}"


def explain_operation(history: History, operation: RecordedOperation) -> WhyAnswer:
    """Say what became of *operation*, which is not a range of missed occurrences."""
    verdict, text = _tell_state(history, operation)
    late = tell_late(operation.late, operation.state)
    text += f"; {late}" if late else ""
    if operation.user_id is not None:
        text = f"for user {operation.user_id}: {text}"
    if operation.trigger == Trigger.BACKFILL:
        text += f"; a backfill recorded it at {history.show(operation.recorded_at)}"
    cause = tell_cause(operation.details)
    if cause is not None:
        text += f"; it follows another action: {cause}"
    elif operation.recorded_at < operation.occurrence:
        decided_at = history.show(operation.recorded_at)
        text += f"; it was decided at {decided_at} by {EARLY_TICK}"
    if operation.ping_error is not None:
        text += f"; its monitor did not take a ping: {operation.ping_error}"
    started_at = operation.started_at
    at = operation.occurrence
    lag = None if started_at is None else started_at - at
    return replace(_answer(history, verdict, text, operation.id, lag), occurrence=at)


def _explain_absence(
    history: History, at: datetime, begin: datetime, unit: timedelta
) -> WhyAnswer:
    in_force = find_in_force(history.revisions, at)
    if not in_force:
        first = history.revisions[0]
        since = history.show(first.recorded_at)
        verdict = Verdict.NOT_EFFECTIVE
        text = f"the action did not exist before {since}"
        if first.number != 1:
            verdict = Verdict.UNEXPLAINED
            text = f"the revisions of the action before {since} have been pruned"
        return _answer(history, verdict, text)
    revision = in_force[-1]
    last = history.revisions[-1]  # no revision follows a deletion
    gone_at = last.recorded_at if last.change == Change.DELETED else None
    if gone_at is not None and gone_at <= at:
        text = f"the action was deleted at {history.show(gone_at)}"
        return _answer(history, Verdict.DELETED, text)
    if revision.timing is None:
        return _explain_event_absence(history, begin, in_force)
    try:
        schedule = parse_timing(revision.timing)
    except RuleError as error:
        out = _explain_out(history, revision, in_force, at)
        unreadable = Verdict.UNREADABLE, f"the rule cannot be read: {error}"
        return _answer(history, *(out or unreadable))
    due = find_occurrences(schedule, begin, begin + unit, limit=1)
    first = history.revisions[0]
    # A due date that had passed a moment before the post takes effect all the same.
    exists_from = min(first.recorded_at, first.effective_from)
    earliest = max(begin - _NEAREST_WITHIN, exists_from)
    previous = find_last(schedule, earliest - timedelta.resolution, begin - _SECOND)
    following = schedule.next_from(begin + unit)
    moved = None if due else describe_departure(schedule, begin)
    named = "minute" if unit is _MINUTE else "second"
    text = moved or f"the rule is not due in this {named}"
    if gone_at is not None:
        text += f"; the action was deleted at {history.show(gone_at)}"
        if following is not None and following >= gone_at:
            following = None
    if not due:
        return _answer(history, Verdict.NOT_DUE, text, near=(previous, following))
    due_at = schedule.due_at(due[0], history.uid)
    verdict, text, operation_id = explain_undone(history, revision, due[0], due_at)
    text += describe_origin(schedule, due[0])
    return _answer(history, verdict, text, operation_id, near=(previous, following))


def _explain_event_absence(
    history: History, minute: datetime, in_force: Sequence[Revision]
) -> WhyAnswer:
    """Say why no event led to an operation in that minute."""
    revision = in_force[-1]
    out = _explain_out(history, revision, in_force, minute)
    if out is not None:
        return _answer(history, *out)
    rule = read_event_rule(revision.document)
    end = minute + _MINUTE
    for event in history.events:
        occurrence = None if rule is None else rule.get_occurrence(event)
        if occurrence is not None and minute <= occurrence < end:
            due_at = max(occurrence, event.recorded_at)
            verdict, text, id_ = explain_undone(history, revision, occurrence, due_at)
            if verdict is Verdict.UNEXPLAINED:
                verdict = Verdict.NOT_DUE
                text = "the recipients do not include the user, or the user is gone"
            return _answer(history, verdict, f"user {event.user_id}: {text}", id_)
    action = read_untimed(revision.document)
    bounds = None if action is None else _explain_bounds(history, action, minute)
    if bounds is not None:
        return bounds
    if action is not None and isinstance(action.when, AfterActionModel):
        text = _explain_former(history, action.when, minute)
        return _answer(history, Verdict.NOT_DUE, text)
    so_far = "no event so far leads" if minute > history.now else "no event led"
    text = f"{so_far} to an occurrence in this minute"
    if rule is not None and rule.when.at is not None:
        text += f"; they wait for {rule.when.at}, {rule.when.timezone}"
    return _answer(history, Verdict.NOT_DUE, text)


def _explain_former(history: History, when: AfterActionModel, minute: datetime) -> str:
    """Say why no run of another action led to one in that minute."""
    former = history.former
    name = when.after_action if former is None else former.name
    rule = describe(when.model_copy(update={"after_action": name}))
    so_far = "so far " if minute > history.now else ""
    text = f"it starts {rule[0].lower()}{rule[1:]}; {so_far}no run led to this minute"
    if former is not None and former.deleted_at is not None:
        return f"{text}, and {name!r} was deleted at {history.show(former.deleted_at)}"
    run = None if former is None else former.latest
    if run is None:
        return f"{text}, and none of {name!r} is recorded before it"
    how, at = tell_end(run.state), run.finished_at
    if run.trigger == Trigger.BACKFILL:
        how = f"{how} (a backfill, which nothing follows)"
    told = "has not ended" if at is None else f"{how} at {history.show(at)}"
    return f"{text}. The latest of {name!r} {told} (operation {run.id})"


def _explain_bounds(
    history: History, action: ScheduledActionModel, minute: datetime
) -> WhyAnswer | None:
    """Return the answer for a minute before ``starts_at`` or after ``ends_at``."""
    starts_at, ends_at = action.starts_at, action.ends_at
    if starts_at is not None and minute + _MINUTE <= starts_at:
        text = f"the rule begins at {history.show(starts_at)} (starts_at)"
        return _answer(history, Verdict.NOT_EFFECTIVE, text)
    if ends_at is not None and minute >= ends_at:
        text = f"the rule ended at {history.show(ends_at)} (ends_at)"
        return _answer(history, Verdict.NOT_DUE, text)
    return None


def _explain_out(
    history: History, revision: Revision, in_force: Sequence[Revision], at: datetime
) -> tuple[Verdict, str] | None:
    """Say why no tick looked at the action *at* an instant; None: ticks did."""
    left = find_exit(in_force)
    until = history.paused_until
    if left is not None and left.change == Change.PAUSED and until is not None:
        # No revision tells yet that a pause with an end will have ended by then.
        left = None if until <= at and left is find_exit(history.revisions) else left
    if left is not None:
        verdict, text = EXIT_WORDS[Change(left.change)]
        detail = "" if left.changed_by is None else f" by {left.changed_by}"
        if verdict is Verdict.QUARANTINED:
            detail = f": {history.quarantine_reason}"
        if verdict is Verdict.PAUSED:
            why = "" if left.note is None else f" ({left.note})"
            detail += f"{why}; occurrences during a pause never run"
        return verdict, f"{text} at {history.show(left.recorded_at)}{detail}"
    if not revision.active:
        text = f"the action has been inactive since revision {in_force[-1].number}"
        return Verdict.INACTIVE, text
    return None


def explain_undone(  # noqa: PLR0911 - one return for each answer
    history: History, revision: Revision, occurrence: datetime, due_at: datetime
) -> tuple[Verdict, str, UUID | None]:
    """
    Say why an occurrence of the rule has no operation of its own.

    Args:
        history: Of the action; of its operations, those that stand for several count.
        revision: The one that was in force at *occurrence*.
        occurrence: Aware UTC.
        due_at: When it was to be sent, aware UTC.

    Returns:
        In a word, in a sentence, and the operation that is about it, if there is one.
    """
    for operation in history.operations:
        covered = operation.covered_range
        if covered is not None and covered[0] <= occurrence <= covered[1]:
            return *_tell_state(history, operation), operation.id
    in_force = [r for r in history.revisions if r.number <= revision.number]
    out = _explain_out(history, revision, in_force, occurrence)
    if out is not None:
        return *out, None
    effective = occurrence if revision.timing is not None else due_at
    if effective < revision.effective_from:
        text = f"the rule takes effect only at {history.show(revision.effective_from)}"
        return Verdict.NOT_EFFECTIVE, text, None
    if due_at > history.now:
        following = history.next_due_at
        passed_over = following is None or following > due_at
        if passed_over and revision.timing is not None:
            return Verdict.MISSED, f"{EARLY_TICK} has passed over it", None
        text = f"it is due at {history.show(due_at)}, unless the action changes"
        return Verdict.WILL_RUN, text, None
    later = [r for r in history.revisions if r.number > revision.number]
    superseding = find_superseding(later, effective, due_at)
    if superseding is not None:
        return *_explain_superseding(history, superseding), None
    tick = history.last_tick_at
    if tick is None or due_at > tick:
        since = "never" if tick is None else history.show(tick)
        text = f"no scheduler has ticked since then (last tick: {since})"
        return Verdict.UNDECIDED, text, None
    still_due_at = history.next_due_at
    if revision.timing is not None and still_due_at and still_due_at <= due_at:
        text = (
            "ticks have left it out so far: a session may keep the action locked"
            " (minutehand doctor tells)"
        )
        return Verdict.UNDECIDED, text, None
    text = "no decision is recorded; it may have been pruned (minutehand audit tells)"
    return Verdict.UNEXPLAINED, text, None


def _explain_superseding(history: History, by: Revision) -> tuple[Verdict, str]:
    """Say which revision took over before an occurrence was decided."""
    out = _explain_out(history, by, [by], by.recorded_at)
    if out is not None:
        verdict, text = out
        return verdict, f"{text}, before this occurrence was decided"
    edit = f"the edit at {history.show(by.recorded_at)} (revision {by.number})"
    return Verdict.SUPERSEDED, f"{edit} superseded it before it was decided"
