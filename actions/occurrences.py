"""
When a scheduled action is due. Pure: instants in, occurrences out.

Everything is derived from one question, "what is the first occurrence at or after this
instant?", so looking back finds exactly what looking ahead promised. Every occurrence
is aware UTC, on a whole second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import NamedTuple

from actions.when import RULES
from actions.when.due_date import DueDateRule
from actions.when.excluding import NO_DAYS, DaysOff, find_allowed, get_local_day
from actions.when.moving import find_kept_or_moved, find_origins
from actions.when.rule import Rule
from actions.when.searching import as_utc, find_last
from actions.when.working_day import WorkingDayRule
from models.days_off import Instead
from models.errors import RuleError
from models.fields.duration import Duration
from models.fields.strict_model import say
from models.occurrence import LOOKBACK
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing, merge_days
from models.when import TimeModel, TimingModel

#: How many parsed schedules are cached, at a kilobyte each: enough for the distinct
#: timings of 100,000 actions, all of which the load ahead needs. A miss costs 0.04 ms.
PARSED_TIMINGS = 16_384

#: Those of more characters name many days, or rules: a thousand days take 160 kB, so
#: that fewer are cached.
_SHORT_TIMING, PARSED_LONG_TIMINGS = 1_000, 4_096

#: Rules are only asked about this range; see Rule.next_from.
_EARLIEST = datetime(1900, 1, 2, tzinfo=UTC)
_LATEST = datetime(9990, 1, 1, tzinfo=UTC)

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)


class Due(NamedTuple):
    """
    An occurrence, and when it is to be decided and sent; both aware UTC.

    Args:
        occurrence: As the rules say; identity and ``effective_from`` use it.
        due_at: *occurrence* plus the jitter of the action.
    """

    occurrence: datetime
    due_at: datetime


class Placed(NamedTuple):
    """
    An occurrence and the rule that it is of.

    Args:
        rule: Its zone is that of the occurrence.
        origins: The local times of excluded days from which it was moved, naive, the
            first of each day. Empty: the rule is due then of its own accord.
    """

    rule: Rule
    origins: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    The parsed rules of one action: their union, without the excluded days.

    Args:
        rules: At least one.
        starts_at: Aware UTC, inclusive. None: no lower bound.
        ends_at: Aware UTC, exclusive; bounds occurrences, so the jitter of the last
            one may reach past it. None: no upper bound.
        excluded: Local days in each rule's own zone.
        instead: Where the occurrences of excluded days go; what *starts_at* and
            *ends_at* bound is where they arrive. None: they are left out.
        jitter: The longest delay of an occurrence; whole minutes, not negative.
        is_below_minute: Whether a rule is due more often than once a minute.
    """

    rules: tuple[Rule, ...]
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    excluded: DaysOff = NO_DAYS
    jitter: timedelta = timedelta()
    instead: Instead | None = None
    is_below_minute: bool = False

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
            Aware UTC, whole seconds; rules that are due at the same instant make one
            occurrence. None if nothing is due any more.
        """
        start = max(as_utc(instant), self.starts_at or _EARLIEST)
        if start > _LATEST:
            return None

        earliest = None
        for rule in self.rules:
            found = self._find_next(rule, start)
            if earliest is None or (found is not None and found < earliest):
                earliest = found
        if earliest is None or (self.ends_at and earliest >= self.ends_at):
            return None
        return earliest

    def _find_next(self, rule: Rule, start: datetime) -> datetime | None:
        if self.instead is None or not self.excluded:
            return find_allowed(rule, start, self.excluded)
        return find_kept_or_moved(rule, start, self.excluded, self.instead)

    def find_rule(self, at: datetime) -> Placed | None:
        """
        Return the first rule that is due at *at*, and from where it was moved.

        Args:
            at: Aware UTC.

        Returns:
            A rule that is due of its own accord comes first. None: none is due then.
        """
        due = [rule for rule in self.rules if rule.next_from(at) == at]
        if self.instead is None:
            return Placed(due[0], ()) if due else None
        for rule in due:
            if not self.excluded.covers(get_local_day(at, rule.zone)):
                return Placed(rule, ())
        for rule in self.rules:
            origins = find_origins(rule, at, self.excluded, self.instead)
            if origins:
                return Placed(rule, tuple(origins))
        return None

    def due_at(self, occurrence: datetime, uid: str) -> datetime:
        """
        Return when *occurrence* is to be sent: some whole minutes later.

        The delay is a fixed share, computed from *uid*, of the jitter or of the time to
        the next occurrence, whichever is shorter. So a thousand actions due at 07:00
        are spread evenly, each always keeps its minute, and no occurrence is overtaken
        by the next one.

        Args:
            occurrence: One of this schedule, aware UTC.

        Returns:
            In ``[occurrence, occurrence + jitter]`` and before the next occurrence.
        """
        if not self.jitter:
            return occurrence
        return occurrence + share_minutes(self.find_room(occurrence), uid) * _MINUTE

    def find_room(self, occurrence: datetime) -> int:
        """Return over how many minutes jitter may spread *occurrence* (aware UTC)."""
        minutes = self.jitter // _MINUTE
        following = self.next_from(occurrence + _SECOND)
        if following is not None:
            room = (following - occurrence - _SECOND) // _MINUTE
            minutes = min(minutes, room)
        return minutes


def share_minutes(minutes: int, uid: str) -> int:
    """Return a number in ``[0, minutes]``: fixed for each uid, evenly distributed."""
    digest = hashlib.sha256(uid.encode()).digest()
    # A share rather than a remainder, so that less room never means a later minute.
    return int.from_bytes(digest[:8], "big") * (minutes + 1) >> 64


def make_schedule(timing: TimingModel) -> Schedule:
    """
    Parse *timing*.

    Args:
        timing: Its bounds are aware; every interval has an anchor.

    Raises:
        RuleError: If a rule, zone or duration cannot be read. A timing that the door
            accepted never raises, unless the time zone database has changed.
    """
    excluded = DaysOff(merge_days(timing.excluded), timing.weekdays)
    return Schedule(
        rules=tuple(make_rule(rule, excluded) for rule in timing.when),
        starts_at=None if timing.starts_at is None else as_utc(timing.starts_at),
        ends_at=None if timing.ends_at is None else as_utc(timing.ends_at),
        excluded=excluded,
        jitter=_read_jitter(timing.jitter),
        instead=timing.instead,
        is_below_minute=timing.is_below_minute,
    )


def make_rule(model: TimeModel, excluded: DaysOff | None = None) -> Rule:
    """
    Parse *model*, which the door has read.

    Args:
        model: Any time kind.
        excluded: The days that its action excepts, on which working days depend. None:
            it excepts none.

    Raises:
        RuleError: It cannot be read any more: its zone was withdrawn.
    """
    rule = RULES[type(model)](model)
    if excluded is not None and isinstance(rule, WorkingDayRule):
        return rule.without(excluded)
    return rule


def _read_jitter(text: str | None) -> timedelta:
    """Parse a jitter, cut to whole minutes (the door refuses fractions)."""
    if text is None:
        return timedelta()
    return Duration.parse(text).elapsed // _MINUTE * _MINUTE


def parse_timing(text: str) -> Schedule:
    """
    Parse a stored timing; the same text gives the same object.

    Args:
        text: The canonical JSON of a TimingModel.

    Raises:
        RuleError: If a rule can no longer be read (its zone was withdrawn); one line,
            for the admin.
    """
    return (_parse_short if len(text) <= _SHORT_TIMING else _parse_long)(text)


def _parse(text: str) -> Schedule:
    try:
        return make_schedule(TimingModel.model_validate_json(text))
    except ValueError as error:  # pydantic's errors are ValueErrors, too
        raise RuleError(say(error)) from None


_parse_short = lru_cache(maxsize=PARSED_TIMINGS)(_parse)
_parse_long = lru_cache(maxsize=PARSED_LONG_TIMINGS)(_parse)


def read_timing(text: str | None) -> Schedule | None:
    """Return the schedule of a stored timing; None: there is none to be read."""
    with suppress(RuleError):  # it is in quarantine, or will be when it is due
        return None if text is None else parse_timing(text)
    return None


def next_due(
    schedule: Schedule,
    uid: str,
    *,
    after: datetime,
    effective_from: datetime | None = None,
) -> Due | None:
    """
    Return the first occurrence that is to be sent after *after*.

    Args:
        uid: Of the action; decides the jitter.
        after: Aware, any zone; exclusive, compared with ``Due.due_at``.
        effective_from: Aware; earlier occurrences do not count, whatever their jitter.
            None: all count.

    Returns:
        The occurrence and when it is to be sent; None if nothing is due any more.
    """
    after = as_utc(after)
    floor = after.replace(microsecond=0)
    if schedule.jitter:
        # An occurrence is sent before the next one comes, so only the latest one can
        # still be waiting for its minute.
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


def next_due_at(
    schedule: Schedule, uid: str, *, after: datetime, effective_from: datetime
) -> datetime | None:
    """Return when the occurrence of ``next_due`` is to be sent; None: there is none."""
    due = next_due(schedule, uid, after=after, effective_from=effective_from)
    return None if due is None else due.due_at


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
    Return the occurrences that are to be sent in ``[start, now]``, in order.

    Args:
        uid: Of the action; decides the jitter.
        start: Aware, any zone; inclusive, compared with ``Due.due_at``.
        now: Aware, any zone; inclusive.
        limit: The most to return. None: all of them.
        effective_from: As for ``next_due``.
    """
    dues = walk_due(schedule, uid, start=start, effective_from=effective_from)
    return list(islice(takewhile(lambda due: due.due_at <= now, dues), limit))


def walk_due(
    schedule: Schedule, uid: str, *, start: datetime, effective_from: datetime | None
) -> Iterator[Due]:
    """Yield what is due at or after *start* (``Due.due_at``), in order."""
    before_start = as_utc(start) - timedelta.resolution
    due = next_due(schedule, uid, after=before_start, effective_from=effective_from)
    while due is not None:
        yield due
        # They are sent in the order of occurrences, so this needs no search.
        following = schedule.next_from(due.occurrence + _SECOND)
        if following is None:
            return
        due = Due(following, schedule.due_at(following, uid))


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
        action: As the door read it. For an event-driven action the answer is None: it
            has no occurrences of its own.
        now: Aware, any zone.
        lookback: How far back to look.
        created_at: Aware; the anchor of an interval that has none. None: *now*.
        holidays: The days of each holiday calendar that *action* excludes, by name.

    Returns:
        Aware UTC, whole seconds, without jitter. None: it was not due.

    Raises:
        InvalidDocumentError: If *action* excludes a calendar that is not in *holidays*.
    """
    now = as_utc(now, "now")
    timing = make_timing(action, holidays=holidays or {}, created_at=created_at or now)
    if timing is None:
        return None
    return find_last(make_schedule(timing), now - lookback, now)


#: The original spelling: docs/origin.md.
get_scheduled_action_last_occurence = get_scheduled_action_last_occurrence
