"""
When a scheduled action is due. Pure: time in, occurrences out.

Everything is derived from one question, "what is the first occurrence at or after
this instant?", so looking back finds exactly what looking ahead promised. Every
occurrence is aware UTC on a whole second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from actions.when import RULES
from actions.when.due_date import DueDateRule
from actions.when.excluding import find_allowed
from actions.when.rule import Rule
from actions.when.searching import as_utc, find_last
from models.errors import RuleError
from models.fields.document import say
from models.fields.duration import Duration
from models.occurrence import LOOKBACK
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing, merge_days
from models.when import TimingModel

#: Parsed schedules kept: the distinct timings of the actions that are due in one
#: tick, at a few kilobytes each. A miss costs a parse, about 0.2 ms.
PARSED_TIMINGS = 4096

#: Rules are only ever asked about these years, see Rule.next_from.
_EARLIEST = datetime(1900, 1, 2, tzinfo=UTC)
_LATEST = datetime(9990, 1, 1, tzinfo=UTC)

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)


class Due(NamedTuple):
    """
    An occurrence and when it is to be decided and sent, both aware UTC.

    Args:
        occurrence: What the rules say; identity and ``effective_from`` use this.

        due_at: The same plus the jitter of the action.
    """

    occurrence: datetime
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    The rules of one action, parsed: their union, less what is excluded.

    Args:
        rules: At least one.

        starts_at: Aware UTC, inclusive. None: no lower bound.

        ends_at: Aware UTC, exclusive; bounds occurrences, so the jitter of the last
            one may reach past it. None: no upper bound.

        excluded: Local days of each rule's own zone, as merge_days returns them.

        jitter: Whole minutes, not negative: the longest delay of an occurrence.
    """

    rules: tuple[Rule, ...]
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    excluded: tuple[DayRange, ...] = ()
    jitter: timedelta = timedelta()

    @property
    def has_dates_only(self) -> bool:
        """Whether every rule is a due date."""
        return all(isinstance(rule, DueDateRule) for rule in self.rules)

    def next_from(self, instant: datetime) -> datetime | None:
        """
        Return the first occurrence at or after *instant*, without jitter.

        Args:
            instant: Aware, any zone.

        Returns:
            Aware UTC, whole seconds; one for all rules that are due at the same
            instant. None if nothing is due any more.
        """
        start = max(as_utc(instant), self.starts_at or _EARLIEST)
        if start > _LATEST:
            return None

        earliest = None
        for rule in self.rules:
            found = find_allowed(rule, start, self.excluded)
            if earliest is None or (found is not None and found < earliest):
                earliest = found
        if earliest is None or (self.ends_at and earliest >= self.ends_at):
            return None
        return earliest

    def due_at(self, occurrence: datetime, uid: str) -> datetime:
        """
        Return when *occurrence* is to be sent: some whole minutes later.

        How many is a fixed share, computed from *uid*, of the jitter or of the time
        to the next occurrence, whichever is shorter. So a thousand actions due at
        07:00 are spread evenly, each keeps its minute, and none is ever overtaken
        by its own next occurrence.

        Args:
            occurrence: One of this schedule, aware UTC.

            uid: Of the action.

        Returns:
            In ``[occurrence, occurrence + jitter]`` and before the next occurrence.
        """
        if not self.jitter:
            return occurrence

        minutes = self.jitter // _MINUTE
        following = self.next_from(occurrence + _SECOND)
        if following is not None:
            room = (following - occurrence - _SECOND) // _MINUTE
            minutes = min(minutes, room)
        return occurrence + _share_of(minutes, uid) * _MINUTE


def _share_of(minutes: int, uid: str) -> int:
    """Return a number of ``[0, minutes]``; even over uids, fixed for each."""
    digest = hashlib.sha256(uid.encode()).digest()
    # A share rather than a remainder: less room never means a later minute.
    return int.from_bytes(digest[:8], "big") * (minutes + 1) >> 64


def make_schedule(timing: TimingModel) -> Schedule:
    """
    Return *timing* parsed.

    Args:
        timing: Its bounds are aware; every interval has an anchor.

    Raises:
        RuleError: If a rule, zone or duration cannot be read. What the door has let
            in never raises.
    """
    return Schedule(
        rules=tuple(RULES[type(rule)](rule) for rule in timing.when),
        starts_at=None if timing.starts_at is None else as_utc(timing.starts_at),
        ends_at=None if timing.ends_at is None else as_utc(timing.ends_at),
        excluded=merge_days(timing.excluded),
        jitter=_read_jitter(timing.jitter),
    )


def _read_jitter(text: str | None) -> timedelta:
    """Return a jitter without its fraction of a minute; the door refuses one."""
    if text is None:
        return timedelta()
    return Duration.parse(text).rest // _MINUTE * _MINUTE


@lru_cache(maxsize=PARSED_TIMINGS)
def parse_timing(text: str) -> Schedule:
    """
    Return the schedule of a stored timing; the same object for the same text.

    Args:
        text: The canonical JSON of a TimingModel.

    Raises:
        RuleError: If a rule cannot be read any more (a zone was withdrawn), on one
            line for its admin.
    """
    try:
        return make_schedule(TimingModel.model_validate_json(text))
    except ValueError as error:  # so are those of pydantic
        raise RuleError(say(error)) from None


def next_due(
    schedule: Schedule,
    uid: str,
    *,
    after: datetime,
    effective_from: datetime | None = None,
) -> Due | None:
    """
    Return the occurrence that is to be sent first after *after*.

    Args:
        schedule: Of the action.

        uid: Of the action; decides the jitter.

        after: Aware, any zone; exclusive, compared with ``Due.due_at``.

        effective_from: Aware; earlier occurrences do not count, whatever their
            jitter. None: all count.

    Returns:
        The occurrence and when it is to be sent; None if nothing is due any more.
    """
    after = as_utc(after)
    floor = after.replace(microsecond=0)
    if schedule.jitter:
        # An occurrence is sent before the next one comes, so only the last
        # that has come can still be waiting for its minute.
        waiting = find_last(schedule, floor - schedule.jitter - _SECOND, after)
        if waiting is not None and (not effective_from or waiting >= effective_from):
            due_at = schedule.due_at(waiting, uid)
            if due_at > after:
                return Due(waiting, due_at)

    start = floor + _SECOND
    if effective_from is not None:
        start = max(start, as_utc(effective_from))
    occurrence = schedule.next_from(start)
    if occurrence is None:
        return None
    return Due(occurrence, schedule.due_at(occurrence, uid))


def find_due(
    schedule: Schedule,
    uid: str,
    *,
    start: datetime,
    now: datetime,
    limit: int | None = None,
    effective_from: datetime | None = None,
) -> list[Due]:
    """
    Return the occurrences that are to be sent in ``[start, now]``, oldest first.

    Args:
        schedule: Of the action.

        uid: Of the action; decides the jitter.

        start: Aware, any zone; inclusive, compared with ``Due.due_at``.

        now: Aware, any zone; inclusive.

        limit: The most to return. None: all of them.

        effective_from: As for next_due.
    """
    found: list[Due] = []
    before_start = as_utc(start) - timedelta.resolution
    due = next_due(schedule, uid, after=before_start, effective_from=effective_from)
    while due is not None and due.due_at <= now:
        if limit is not None and len(found) >= limit:
            break
        found.append(due)
        # They are sent in the order of occurrences, so no search is needed here.
        following = schedule.next_from(due.occurrence + _SECOND)
        if following is None:
            break
        due = Due(following, schedule.due_at(following, uid))
    return found


def get_scheduled_action_last_occurrence(
    action: ScheduledActionModel,
    *,
    now: datetime,
    lookback: timedelta = LOOKBACK,
    created_at: datetime | None = None,
    holidays: Mapping[str, Sequence[DayRange]] | None = None,
) -> datetime | None:
    """
    Return the latest moment in ``(now - lookback, now]`` at which *action* was due.

    Args:
        action: As the door read it. One that is driven by events has no occurrence
            of its own, so the answer is None.

        now: Aware, any zone.

        lookback: Longest downtime to make up for.

        created_at: Aware; anchors an interval without anchor. None: *now*.

        holidays: The days of each holiday calendar that *action* excepts.

    Returns:
        Aware UTC, whole seconds, without jitter; None if it was not due.

    Raises:
        InvalidDocumentError: If *action* excepts a calendar that is not among
            *holidays*.
    """
    now = as_utc(now, "now")
    timing = make_timing(action, holidays=holidays or {}, created_at=created_at or now)
    if timing is None:
        return None
    return find_last(make_schedule(timing), now - lookback, now)


#: The original spelling: docs/origin.md.
get_scheduled_action_last_occurence = get_scheduled_action_last_occurrence
