"""
What is recorded about an action, and what its events should have led to. Pure.

The latter is read from documents and events, not from the columns that the tick uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from actions.explaining.own_readings import read_delay
from models.decision import read_missed
from models.fields.delay import Delay, join_delay
from models.fields.zone import load_zone
from models.operation import RecipientFilterModel
from models.operation_state import ENDINGS, OperationState, Trigger
from models.revision import EXITS, Change
from models.scheduled_action import ScheduledActionModel
from models.when import AfterActionModel, AfterEventModel, EventModel

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
        missed = read_missed(self.details) if self.state in _OF_SEVERAL else None
        return None if missed is None else (missed.first, missed.last)


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


def find_looked_at(revisions: Sequence[Revision]) -> Iterator[tuple[int, Revision]]:
    """Yield those of *revisions* under which ticks looked at the action, by index."""
    for number, revision in enumerate(revisions):
        if _is_looked_at(revisions[: number + 1]):
            yield number, revision


def _is_looked_at(revisions: Sequence[Revision]) -> bool:
    return revisions[-1].active and find_exit(revisions) is None


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


#: Of what ends so close to an edit, nobody knows which revision decided.
_BESIDE = timedelta(minutes=1)

#: Returns whether an action's recipients include a user (by id), who may be gone.
Keeps = Callable[[RecipientFilterModel | None, str], bool]


@dataclass(frozen=True)
class EventRule:
    """What an event-driven action waits for, as its document says."""

    action: ScheduledActionModel
    when: EventModel

    @property
    def event(self) -> str:
        """Name of the event."""
        return self.when.event

    @cached_property
    def delay(self) -> Delay:
        """What lies between the event and the occurrence."""
        duration = self.when.delay if isinstance(self.when, AfterEventModel) else None
        return Delay.parse(join_delay(duration, self.when.at))

    def get_occurrence(self, event: RecordedEvent) -> datetime | None:
        """Return the occurrence of *event*; None if the rule does not wait for it."""
        if event.name != self.event:
            return None
        zone = load_zone(self.when.timezone)
        occurrence = read_delay(event.at, self.delay, zone)
        return occurrence if _is_within(self.action, occurrence) else None


def read_event_rule(document: Mapping[str, Any] | None) -> EventRule | None:
    """Return the rule of *document*; None: no event drives it, or it is unreadable."""
    action = read_untimed(document)
    if action is not None and isinstance(action.when, EventModel):
        return EventRule(action, action.when)
    return None


def read_untimed(document: Mapping[str, Any] | None) -> ScheduledActionModel | None:
    """Return the action of *document*; None if it is time-driven or unreadable."""
    if document is None:
        return None
    try:
        return ScheduledActionModel.model_validate(document)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class Expected:
    """An occurrence that should be decided; times are aware UTC."""

    occurrence: datetime
    user_id: str
    due_at: datetime


def find_missing_runs(
    revisions: Sequence[Revision], unfollowed: Sequence[RecordedOperation]
) -> Iterator[tuple[datetime, RecordedOperation]]:
    """
    Yield those of *unfollowed* after which a run should have begun, and its occurrence.

    Args:
        revisions: All revisions of the action that starts after another one, in order.
        unfollowed: Runs of the action that the last revision names; what an earlier one
            named otherwise is not known.
    """
    last = read_untimed(revisions[-1].document)
    if last is None or not isinstance(last.when, AfterActionModel):
        return
    for ended in unfollowed:
        at = ended.finished_at
        if at is None or ended.trigger == Trigger.BACKFILL:
            continue
        action = _find_decider(revisions, at)
        if action is None:
            continue
        when = action.when
        if (
            not isinstance(when, AfterActionModel)
            or when.after_action != last.when.after_action
            or ended.state not in ENDINGS[when.on]
        ):
            continue
        delay, zone = Delay.parse(when.delay), load_zone(when.timezone)
        occurrence = read_delay(at, delay, zone)
        if _is_within(action, occurrence):
            yield occurrence, ended


def _find_decider(
    revisions: Sequence[Revision], at: datetime
) -> ScheduledActionModel | None:
    """Return the action that decided at an instant; None: none, or nobody knows."""
    in_force = find_in_force(revisions, at)
    is_beside = any(abs(at - each.recorded_at) < _BESIDE for each in revisions)
    if is_beside or not in_force or in_force[-1].effective_from > at:
        return None
    return read_untimed(in_force[-1].document) if _is_looked_at(in_force) else None


def _is_within(action: ScheduledActionModel, occurrence: datetime) -> bool:
    starts_at, ends_at = action.starts_at, action.ends_at
    return (starts_at is None or occurrence >= starts_at) and (
        ends_at is None or occurrence < ends_at
    )


def find_undecided(
    revisions: Sequence[Revision],
    events: Sequence[RecordedEvent],
    decided: Sequence[RecordedOperation],
    *,
    keeps: Keeps,
) -> Iterator[Expected]:
    """
    Yield the occurrences that revisions should have decided, and that have no decision.

    Args:
        revisions: All revisions of the action, in order.
        events: The recorded events, of any name.
        decided: The decisions about their occurrences.
        keeps: May judge users as they are now, although they may have changed since.
    """
    known = {(each.occurrence, each.user_id) for each in decided}
    ranges = [each.covered_range for each in decided if each.covered_range is not None]
    for number, revision in find_looked_at(revisions):
        rule = read_event_rule(revision.document)
        if rule is None:
            continue
        for event in events:
            at = rule.get_occurrence(event)
            if at is None or (at, event.user_id) in known:
                continue
            due_at = max(at, event.recorded_at)
            if (
                due_at >= revision.effective_from
                and is_left_to(revisions, number, due_at, due_at)
                and not any(first <= at <= last for first, last in ranges)
                and keeps(rule.action.recipients, event.user_id)
            ):
                yield Expected(at, event.user_id, due_at)
