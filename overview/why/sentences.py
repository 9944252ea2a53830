"""
Why an operation did not run, or waits, in one sentence for its row. Pure.

Every face shows the same sentence, and under it what can be done. Its instants are not
text yet: a face shows each with the clocks of its reader and in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID
from zoneinfo import ZoneInfo

from models.decision import EARLY_TICK, read_missed
from models.json_form import ASIDE
from models.operation_state import Mark, OperationState, Reason, is_awaiting
from models.units import capitalize, format_count, show_instant
from operations.reasons import REASONS, find_cause, read_reason

#: A sentence: its words, and the instants between them, aware UTC.
Parts = tuple[str | datetime, ...]


class Remedy(StrEnum):
    """What somebody may do about it; the face says where."""

    RETRY = "retry"
    CANCEL = "cancel"
    BACKFILL = "backfill"  # let the occurrence run after all
    EDIT = "edit"  # the action: its overlap, its catch_up, whether it is active
    BLOCKER = "blocker"  # look at the operation that it waits for
    WORKERS = "workers"  # start one, or look at what they do
    DOCTOR = "doctor"  # the installation is in trouble
    MAILS = "mails"  # decide about uncertain ones


class OperationRow(Protocol):
    """What a sentence needs of an operation; a row of ``operations`` has it."""

    id: UUID
    state: str
    reason: str | None
    error: str | None
    queue: str
    occurrence: datetime
    recorded_at: datetime
    send_at: datetime
    finished_at: datetime | None
    attempt: int
    attempts_allowed: int
    details: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where an operation stands among those that wait for a worker of its queue.

    Args:
        position: From 1.
        waiting: How many wait there, at least.
        is_served: Whether a worker that takes from the queue is alive.
        is_whole: Whether no more than *waiting* wait.
    """

    position: int
    waiting: int
    is_served: bool
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Circumstances:
    """
    What the row of an operation alone does not tell; what is unknown is left out.

    Args:
        hindrance: What keeps it from being sent, or claimed.
        blocker: The operation that it waits for, or that an occurrence overlapped.
        blocker_at: The occurrence of that one, aware UTC.
        place: Where a queued one stands.
        program: What is wrong with the scheduler or the broker, for one that should
            have been sent.
        outage: From when to when nobody led, aware UTC, for a missed one.
        uncertain: Its mails that may or may not have been sent.
        by: Who canceled it.
    """

    hindrance: Parts = ()
    blocker: UUID | None = None
    blocker_at: datetime | None = None
    place: Place | None = None
    program: Parts = ()
    outage: tuple[datetime, datetime] | None = None
    uncertain: int = 0
    by: str | None = None


#: Nothing but the row is known.
ALONE = Circumstances()


@dataclass(frozen=True, slots=True)
class Why:
    """
    Why an operation did not run, or waits; ``same`` filters the list for others.

    Args:
        text: The sentence, each instant in the zone of the action and in UTC.
        same: The filters of the list of operations that find it and those like it;
            empty if that makes no sense.
        remedies: What can be done, the best first.
        blocker: The operation that is in its way, if one is known.
        parts: The sentence.
    """

    text: str
    same: Mapping[str, str]
    remedies: tuple[Remedy, ...]
    blocker: UUID | None
    parts: Parts = field(metadata=ASIDE)


def _say(
    parts: Iterable[str | datetime],
    same: Mapping[str, str],
    remedies: tuple[Remedy, ...] = (),
    blocker: UUID | None = None,
) -> Why:
    return Why("", same, remedies, blocker, tuple(parts))


def find_mark(operation: OperationRow, uncertain: int = 0) -> Mark | None:
    """Return what an operation is called beside its state, if anything."""
    if uncertain:
        return Mark.UNCERTAIN
    is_pending = operation.state == OperationState.PENDING
    is_tried = operation.reason is not None and not is_awaiting(operation.reason)
    return Mark.RETRYING if is_pending and is_tried else None


def tell_why(
    operation: OperationRow,
    known: Circumstances = ALONE,
    *,
    now: datetime,
    zone: ZoneInfo | None = None,
) -> Why | None:
    """
    Say why an operation did not run, did not succeed, or waits.

    Args:
        operation: Of any state.
        known: What else is known about it.
        now: Aware UTC.
        zone: In which the text tells local times, beside UTC. None: in UTC alone.

    Returns:
        None if there is nothing to say: it runs, or succeeded with all its mails.
    """
    told = _tell(operation, known, now)
    if told is None:
        return None
    text = "".join(
        part if isinstance(part, str) else show_instant(part, zone)
        for part in told.parts
    )
    return replace(told, text=text)


def _tell(operation: OperationRow, known: Circumstances, now: datetime) -> Why | None:
    match state := OperationState(operation.state):
        case OperationState.PENDING:
            return _tell_pending(operation, known, now)
        case OperationState.RUNNING:
            return None
        case OperationState.SUCCEEDED if not known.uncertain:
            return None
    return _TELLS[state](operation, known)


def _tell_pending(operation: OperationRow, known: Circumstances, now: datetime) -> Why:
    if is_awaiting(operation.reason):
        return _tell_awaiting(operation)
    is_retrying = find_mark(operation) is Mark.RETRYING
    parts: list[str | datetime] = []
    if is_retrying:
        parts += [_quote(operation), ". "]
    attempt = f"Attempt {operation.attempt + 1} of {operation.attempts_allowed}"
    if operation.send_at > now:
        begin = f"{attempt} follows at " if is_retrying else "Waits for its time, "
        return _wait(operation, [*parts, begin, operation.send_at, "."])
    begin = f"{attempt} is due, and waits" if is_retrying else "Waits"
    if known.hindrance or known.blocker is not None:
        words = known.hindrance or ("another run of the action has not ended",)
        parts += [f"{begin}: ", *words, *_name_blocker(known), "."]
        remedies = (Remedy.BLOCKER,) if known.blocker else ()
        return _wait(operation, parts, *remedies, blocker=known.blocker)
    if known.program:
        parts += [f"{begin} to be sent since ", operation.send_at, ": "]
        return _wait(operation, [*parts, *known.program, "."], Remedy.DOCTOR)
    return _wait(operation, [*parts, f"{begin} to be sent: that takes a second."])


def _tell_awaiting(operation: OperationRow) -> Why:
    """Say until when the end of a task is waited for, and why it may not come."""
    name = read_reason(operation.reason or "").detail
    parts: list[str | datetime] = [
        f"Waits for the task's own end ({name}), until ",
        operation.send_at,
    ]
    if not operation.error:
        return _wait(operation, [*parts, "."])
    why = find_cause(None, operation.error).rstrip(".")
    return _wait(operation, [*parts, f": {why}."], Remedy.DOCTOR)


def _wait(
    operation: OperationRow,
    parts: list[str | datetime],
    *first: Remedy,
    blocker: UUID | None = None,
) -> Why:
    """Return a sentence about an operation that waits, and may be canceled."""
    same = {"state": str(operation.state)}
    if operation.reason is not None:
        found = read_reason(operation.reason).reason
        same |= {} if found is None else {"reason": str(found)}
        if found in {Reason.PLATFORM, Reason.MAIL_SERVER_AWAY}:
            first = (*first, Remedy.DOCTOR)
    return _say(parts, same, (*first, Remedy.CANCEL), blocker)


def _name_blocker(known: Circumstances) -> Iterator[str | datetime]:
    if known.blocker_at is not None:
        yield ", the one of "
        yield known.blocker_at


def _tell_queued(operation: OperationRow, known: Circumstances) -> Why:
    queue, place = operation.queue, known.place
    if place is None:
        busy = f"the slots of {queue} are busy, as far as is known"
        words = known.hindrance or (busy,)
        return _wait(operation, ["Waits for a worker: ", *words, "."], Remedy.WORKERS)
    more = "" if place.is_whole else "more than "
    where = f"position {place.position:,} of {more}{place.waiting:,} on {queue}"
    parts: list[str | datetime] = [f"Waits for a worker: {where}"]
    if known.hindrance:
        parts += ["; ", *known.hindrance]
    elif not place.is_served:
        parts.append(", which no worker takes from")
    return _wait(operation, [*parts, "."], Remedy.WORKERS)


def _tell_uncertain(operation: OperationRow, known: Circumstances) -> Why:
    told = (_count_uncertain(known.uncertain),)
    return _say(told, {"state": str(operation.state)}, (Remedy.MAILS,))


def _count_uncertain(count: int) -> str:
    it = "it" if count == 1 else "them"
    many = format_count(count, "mail is", "mails are")
    return (
        f"{many} uncertain: the mail server or a worker broke off while the content"
        f" was on its way. Nothing sends {it} again unless somebody decides so."
    )


def _tell_failed(operation: OperationRow, known: Circumstances) -> Why:
    parts: list[str | datetime] = [_quote(operation), *_give_end(operation)]
    left = operation.attempts_allowed - operation.attempt
    found = None if operation.reason is None else read_reason(operation.reason).reason
    if left > 0 and found is Reason.STEP_FAILED:
        parts.append(". Permanent: no further attempt follows by itself.")
    else:
        parts.append(f", in attempt {operation.attempt}.")
    remedies: tuple[Remedy, ...] = (Remedy.RETRY,)
    if known.uncertain:
        parts.append(f" {_count_uncertain(known.uncertain)}")
        remedies = (Remedy.RETRY, Remedy.MAILS)
    return _say(parts, {"same_as": str(operation.id)}, remedies)


def _tell_canceled(operation: OperationRow, known: Circumstances) -> Why:
    found = read_reason(operation.reason or Reason.CANCELED)
    same = _same(operation, found.reason)
    if found.reason is Reason.CANCELED:
        who = known.by or "somebody"
        parts = ("canceled: ", f"{who} canceled it", *_give_end(operation), ".")
        return _say(parts, same, (Remedy.RETRY,))
    remedies = {
        Reason.ACTION_DELETED: (),
        Reason.ACTION_INACTIVE: (Remedy.EDIT, Remedy.RETRY),
    }
    parts = (_explain(operation), *_give_end(operation), ".")
    chosen = (Remedy.RETRY,) if found.reason is None else remedies.get(found.reason)
    return _say(parts, same, (Remedy.RETRY,) if chosen is None else chosen)


def _tell_skipped(operation: OperationRow, known: Circumstances) -> Why:
    found = read_reason(operation.reason or "").reason
    same = _same(operation, found)
    if found is Reason.OVERLAP and known.blocker_at is not None:
        words = " was not final, and overlap is skip."
        parts: Parts = ("overlap: the run of ", known.blocker_at, words)
        remedies = (Remedy.BLOCKER, Remedy.BACKFILL, Remedy.EDIT)
        return _say(parts, same, remedies, known.blocker)
    parts = _explain_all(operation)
    match found:
        case Reason.NO_LONGER_TRUE:
            return _say(parts, same)
        case Reason.UNCHANGED:
            return _say(parts, same, (Remedy.EDIT,))
    return _say(parts, same, (Remedy.BACKFILL, Remedy.EDIT))


def _tell_missed(operation: OperationRow, known: Circumstances) -> Why:
    found = read_reason(operation.reason or "").reason
    same = _same(operation, found)
    if found is not Reason.OUTAGE:
        remedies = (Remedy.BACKFILL,) if found is Reason.RESTORED else ()
        return _say(_explain_all(operation), same, remedies)
    parts: list[str | datetime] = ["outage: ", *_count_missed(operation), ". "]
    missed = read_missed(operation.details)
    last = operation.occurrence if missed is None else missed.last
    if operation.recorded_at < last:
        parts += [f"{capitalize(EARLY_TICK)} decided so at ", operation.recorded_at]
    elif known.outage is not None:
        since, until = known.outage
        parts += ["Nobody led from ", since, " to ", until]
    else:
        parts.append("No scheduler led in time")
    those = "it" if missed is None else "them"
    parts.append(f", and catch_up does not include {those}.")
    return _say(parts, same, (Remedy.BACKFILL, Remedy.EDIT))


def _explain_all(operation: OperationRow) -> Parts:
    """Return the reason and what it means, and the occurrences of a row for several."""
    if read_missed(operation.details) is None:
        return (f"{_explain(operation)}.",)
    return (f"{_explain(operation)} (", *_count_missed(operation), ").")


def _count_missed(operation: OperationRow) -> list[str | datetime]:
    """Return how many occurrences a row covers, and which."""
    missed = read_missed(operation.details)
    if missed is None:
        return ["one occurrence"]
    if missed.count == 1 and not missed.is_more:
        return ["the occurrence of ", missed.first]
    more = "at least " if missed.is_more else ""
    return [f"{more}{missed.count:,} occurrences, ", missed.first, " to ", missed.last]


def _same(operation: OperationRow, reason: Reason | None) -> Mapping[str, str]:
    same = {"state": str(operation.state)}
    return same if reason is None else {**same, "reason": str(reason)}


def _give_end(operation: OperationRow) -> Iterator[str | datetime]:
    if operation.finished_at is not None:
        yield " at "
        yield operation.finished_at


def _quote(operation: OperationRow) -> str:
    """Return the reason and the error on one line, as whoever refused wrote it."""
    cause = find_cause(operation.reason, operation.error).rstrip(".")
    if operation.reason is None:
        return cause
    found = read_reason(operation.reason).reason
    if found is None or cause.startswith(found):
        return cause
    return f"{found}: {cause}"


def _explain(operation: OperationRow) -> str:
    """Return the reason and what it means."""
    if operation.reason is None:
        return "no reason is recorded"
    found = read_reason(operation.reason)
    if found.reason is None:
        return found.meaning
    detail = f" ({found.detail})" if found.detail else ""
    return f"{found.reason}: {REASONS[found.reason]}{detail}"


_TELLS: Mapping[OperationState, Callable[[OperationRow, Circumstances], Why]] = {
    OperationState.QUEUED: _tell_queued,
    OperationState.SUCCEEDED: _tell_uncertain,
    OperationState.FAILED: _tell_failed,
    OperationState.CANCELED: _tell_canceled,
    OperationState.SKIPPED: _tell_skipped,
    OperationState.MISSED: _tell_missed,
}
