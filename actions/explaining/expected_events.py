"""
The occurrences that events should have led to, read independently of the tick. Pure.

This reads documents and events directly, not the columns that the tick uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from actions.explaining.own_readings import read_delay
from actions.explaining.recorded import (
    RecordedEvent,
    RecordedOperation,
    Revision,
    find_exit,
    is_left_to,
)
from models.fields.delay import Delay, join_delay
from models.fields.zone import load_zone
from models.operation_state import ENDINGS, Trigger
from models.recipients import RecipientFilterModel
from models.scheduled_action import ScheduledActionModel
from models.when import AfterActionModel, AfterEventModel, EventModel

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
    recipients: RecipientFilterModel | None


def find_expected(
    revisions: Sequence[Revision], events: Sequence[RecordedEvent]
) -> Iterator[Expected]:
    """
    Yield the occurrences of *events* that each revision should decide.

    Args:
        revisions: All revisions of the action, in order.
        events: Of any name. Whether the recipients include their users is not checked.
    """
    for number, revision in enumerate(revisions):
        rule = read_event_rule(revision.document)
        if rule is None or not revision.active:
            continue
        if find_exit(revisions[: number + 1]) is not None:
            continue
        for event in events:
            occurrence = rule.get_occurrence(event)
            if occurrence is None:
                continue
            due_at = max(occurrence, event.recorded_at)
            if due_at >= revision.effective_from and is_left_to(
                revisions, number, due_at, due_at
            ):
                yield Expected(
                    occurrence, event.user_id, due_at, rule.action.recipients
                )


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
        number = _find_in_force(revisions, ended.finished_at)
        if ended.finished_at is None or number is None or not revisions[number].active:
            continue
        action = read_untimed(revisions[number].document)
        if action is None or find_exit(revisions[: number + 1]) is not None:
            continue
        when = action.when
        if not isinstance(when, AfterActionModel) or ended.trigger == Trigger.BACKFILL:
            continue
        if when.after_action != last.when.after_action:
            continue
        if ended.state not in ENDINGS[when.on]:
            continue
        delay, zone = Delay.parse(when.delay), load_zone(when.timezone)
        occurrence = read_delay(ended.finished_at, delay, zone)
        if _is_within(action, occurrence):
            yield occurrence, ended


def _find_in_force(revisions: Sequence[Revision], at: datetime | None) -> int | None:
    """Return which revision decided at an instant; None: none, or nobody knows."""
    if at is None or any(abs(at - each.recorded_at) < _BESIDE for each in revisions):
        return None
    known = [n for n, each in enumerate(revisions) if each.recorded_at <= at]
    if not known or revisions[known[-1]].effective_from > at:
        return None
    return known[-1]


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
    Yield the expected occurrences without an operation and outside all missed ranges.

    Args:
        revisions: All revisions of the action, in order.
        events: The recorded events, of any name.
        decided: The decisions about their occurrences.
        keeps: May judge users as they are now, although they may have changed since.
    """
    known = {(each.occurrence, each.user_id) for each in decided}
    ranges = [each.covered_range for each in decided if each.covered_range is not None]
    for expected in find_expected(revisions, events):
        if (
            (expected.occurrence, expected.user_id) not in known
            and not any(a <= expected.occurrence <= b for a, b in ranges)
            and keeps(expected.recipients, expected.user_id)
        ):
            yield expected
