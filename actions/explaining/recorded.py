"""What is recorded about an action: revisions, decisions and events. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from models.operation_state import OperationState
from models.revision import EXITS, Change

#: States of rows that may stand for several occurrences.
_OF_SEVERAL = frozenset({OperationState.MISSED, OperationState.SKIPPED})

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Revision:
    """
    An action as it was after one change; times are aware UTC.

    Args:
        change: What made it, a ``Change``.
        timing: Canonical text. None: the action is event-driven.
        document: As posted. None: the action is time-driven.
        undecided_from: The first instant that was not decided when this revision took
            over. Whatever was due from then on is decided under this revision or not
            at all. None: nothing more was due.
        changed_by: Who made the change. None: not recorded.
        note: Their note, such as why they paused the action.
    """

    number: int
    change: str
    recorded_at: datetime
    timing: str | None
    active: bool
    effective_from: datetime
    undecided_from: datetime | None = None
    document: Mapping[str, Any] | None = None
    changed_by: str | None = None
    note: str | None = None

    @property
    def is_out(self) -> bool:
        """Whether ticks no longer look at the action under this revision."""
        return self.change in EXITS or not self.active


@dataclass(frozen=True, slots=True)
class RecordedOperation:
    """A recorded decision and its outcome; times are aware UTC."""

    id: UUID
    action_uid: str
    trigger: str
    occurrence: datetime
    user_id: str | None
    state: str
    reason: str | None
    queue: str
    recorded_at: datetime
    send_at: datetime
    sent_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    details: dict[str, Any] | None
    ping_error: str | None = None
    late: str | None = None

    @property
    def covered_range(self) -> tuple[datetime, datetime] | None:
        """First and last of the occurrences that it stands for; None for any other."""
        if self.state not in _OF_SEVERAL or not self.details:
            return None
        if "first" not in self.details:
            return None
        first, last = self.details["first"], self.details["last"]
        return datetime.fromisoformat(first), datetime.fromisoformat(last)


def find_in_force(revisions: Sequence[Revision], at: datetime) -> list[Revision]:
    """Return those of *revisions* that had been made by *at*; the last is in force."""
    return [each for each in revisions if each.recorded_at <= at]


def find_exit(revisions: Sequence[Revision]) -> Revision | None:
    """
    Return the revision since which ticks do not look at the action; None: they do.

    An edit does not resume a paused action. A quarantine ends only when the rule takes
    effect anew (see ``effective_from``).

    Args:
        revisions: All revisions up to the instant in question, in order; not empty.
    """
    started_at = revisions[-1].effective_from
    for revision in reversed(revisions):
        if revision.change == Change.RESUMED:
            return None
        if revision.change == Change.QUARANTINED and started_at > revision.recorded_at:
            continue
        if revision.change in EXITS:
            return revision
    return None


@dataclass(frozen=True, slots=True)
class FormerAction:
    """
    The action that another one starts after; times are aware UTC.

    Args:
        latest: Its latest run by then. None: there was none, or it has been pruned.
    """

    name: str
    deleted_at: datetime | None
    latest: RecordedOperation | None


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something that happened to a user; times are aware UTC."""

    name: str
    user_id: str
    at: datetime
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class ActionHistory:
    """
    What an audit compares, for one action.

    Args:
        events: The events that the action waits for; none if it is time-driven.
        unfollowed: Runs of the action after which it starts that have ended, and that
            no run of it follows.
    """

    uid: str
    app: str
    revisions: Sequence[Revision]
    decided: Sequence[RecordedOperation]
    events: Sequence[RecordedEvent]
    catches_up: bool
    unfollowed: Sequence[RecordedOperation] = ()

    @property
    def is_of_time(self) -> bool:
        """Whether a rule of time ever drove it."""
        return any(revision.timing is not None for revision in self.revisions)

    @property
    def is_of_events(self) -> bool:
        """Whether events ever drove it."""
        return any(revision.timing is None for revision in self.revisions)


def is_left_to(
    revisions: Sequence[Revision], number: int, occurrence: datetime, due_at: datetime
) -> bool:
    """
    Return whether an occurrence was to be decided under the revision *number*.

    A revision decides what was undecided when it took over, up to what is still
    undecided when the next one takes over.

    Args:
        revisions: All revisions of the action, in order.
        number: Index into *revisions*.
        occurrence: Aware UTC, not before the revision took effect; for an event-driven
            action the same as *due_at*.
        due_at: When it was to be sent: *occurrence* plus jitter.
    """
    revision = revisions[number]
    if number:
        starts_anew = revision.effective_from > revisions[number - 1].effective_from
        undecided = due_at >= (revision.undecided_from or _NEVER)
        if not (starts_anew or undecided or occurrence >= revision.recorded_at):
            return False
    if number + 1 == len(revisions):
        return True
    following = revisions[number + 1]
    return occurrence < following.recorded_at and due_at < (
        following.undecided_from or _NEVER
    )


def find_superseding(
    later: Sequence[Revision], occurrence: datetime, due_at: datetime
) -> Revision | None:
    """
    Return the revision that took over before an occurrence was decided, if one did.

    Args:
        later: The revisions after the one under which it was due, in order.
        occurrence: Aware UTC; for an event-driven action the same as *due_at*.
        due_at: When it was to be sent: *occurrence* plus jitter.
    """
    for revision in later:
        if revision.is_out or revision.effective_from > occurrence:
            undecided_from = revision.undecided_from
            superseded = undecided_from is not None and undecided_from <= due_at
            return revision if superseded else None
    return None
