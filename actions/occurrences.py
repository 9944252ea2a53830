"""
When a scheduled action is due. Pure: instants in, occurrences out.

Everything is derived from one question, "what is the first occurrence at or after this
instant?", so looking back finds exactly what looking ahead promised. Every occurrence
is aware UTC, on a whole second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import islice, takewhile
from typing import NamedTuple

from actions.when.any_rule import make_rule
from actions.when.due_date import DueDateRule
from actions.when.excluding import find_allowed
from actions.when.rule import Rule
from actions.when.searching import as_utc, count_occurrences, find_last
from models.errors import RuleError
from models.fields.duration import Duration
from models.fields.strict_model import say
from models.occurrence import LOOKBACK
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing, merge_days
from models.when import TimingModel

#: How many parsed schedules are cached, at a few kilobytes each: enough for the
#: distinct timings that are due in one tick. A miss costs about 0.2 ms.
PARSED_TIMINGS = 4096

#: Rules are only asked about this range; see Rule.next_from.
_EARLIEST = datetime(1900, 1, 2, tzinfo=UTC)
_LATEST = datetime(9990, 1, 1, tzinfo=UTC)

_RESOLUTION = timedelta.resolution
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


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    The parsed rules of one action: their union, without the excluded days.

    Args:
        rules: At least one.

        starts_at: Aware UTC, inclusive. None: no lower bound.

        ends_at: Aware UTC, exclusive; bounds occurrences, so the jitter of the last
            one may reach past it. None: no upper bound.

        excluded: Local days in each rule's own zone, as merge_days returns them.

        jitter: The longest delay of an occurrence; whole minutes, not negative.
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
            Aware UTC, whole seconds; rules that are due at the same instant make one
            occurrence. None if nothing is due any more.
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

        The delay is a fixed share, computed from *uid*, of the jitter or of the time to
        the next occurrence, whichever is shorter. So a thousand actions due at 07:00
        are spread evenly, each always keeps its minute, and no occurrence is overtaken
        by the next one.

        Args:
            occurrence: One of this schedule, aware UTC.

            uid: Of the action.

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
    return Schedule(
        rules=tuple(make_rule(rule) for rule in timing.when),
        starts_at=None if timing.starts_at is None else as_utc(timing.starts_at),
        ends_at=None if timing.ends_at is None else as_utc(timing.ends_at),
        excluded=merge_days(timing.excluded),
        jitter=_read_jitter(timing.jitter),
    )


def _read_jitter(text: str | None) -> timedelta:
    """Parse a jitter, cut to whole minutes (the door refuses fractions)."""
    if text is None:
        return timedelta()
    return Duration.parse(text).rest // _MINUTE * _MINUTE


@lru_cache(maxsize=PARSED_TIMINGS)
def parse_timing(text: str) -> Schedule:
    """
    Parse a stored timing; the same text gives the same object.

    Args:
        text: The canonical JSON of a TimingModel.

    Raises:
        RuleError: If a rule can no longer be read (its zone was withdrawn); one line,
            for the admin.
    """
    try:
        return make_schedule(TimingModel.model_validate_json(text))
    except ValueError as error:  # pydantic's errors are ValueErrors, too
        raise RuleError(say(error)) from None


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
        schedule: Of the action.

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
        schedule: Of the action.

        uid: Of the action; decides the jitter.

        start: Aware, any zone; inclusive, compared with ``Due.due_at``.

        now: Aware, any zone; inclusive.

        limit: The most to return. None: all of them.

        effective_from: As for ``next_due``.
    """
    dues = _walk(schedule, uid, start=start, effective_from=effective_from)
    return list(islice(takewhile(lambda due: due.due_at <= now, dues), limit))


def _walk(
    schedule: Schedule, uid: str, *, start: datetime, effective_from: datetime | None
) -> Iterator[Due]:
    """Yield what is due at or after *start*, in order."""
    before_start = as_utc(start) - timedelta.resolution
    due = next_due(schedule, uid, after=before_start, effective_from=effective_from)
    while due is not None:
        yield due
        # They are sent in the order of occurrences, so this needs no search.
        following = schedule.next_from(due.occurrence + _SECOND)
        if following is None:
            return
        due = Due(following, schedule.due_at(following, uid))


class CatchUp(NamedTuple):
    """
    Which occurrences of an outage still run.

    Args:
        runs: "none", "latest" or "all", as in an action.

        since: Occurrences due before this do not run, aware UTC.

        until: Occurrences due by this belong to the outage, aware UTC.

        limit: The most that run; also the most that are counted as missed.
    """

    runs: str
    since: datetime
    until: datetime
    limit: int


class Missed(NamedTuple):
    """A range of missed occurrences; *more*: there are more than *number*."""

    first: datetime
    last: datetime
    number: int
    more: bool


class Tally(NamedTuple):
    """
    The occurrences of one action, divided into those that run and those that do not.

    Args:
        run: Those that run, oldest first.

        missed: The occurrences of an outage that do not run: at most one range before
            and one after those that do.

        next_due_at: When the first later occurrence is due. None: there is none.

        is_plain: Whether neither jitter nor an outage mattered, so that the tally holds
            for every action with the same rules and the same start.
    """

    run: tuple[datetime, ...]
    missed: tuple[Missed, ...]
    next_due_at: datetime | None
    is_plain: bool = False


def tally(
    schedule: Schedule,
    uid: str,
    *,
    start: datetime,
    now: datetime,
    effective_from: datetime,
    catch_up: CatchUp,
) -> Tally:
    """
    Return what becomes of every occurrence that is due in ``[start, now]``.

    What is due after ``catch_up.until`` runs. *catch_up* decides about older
    occurrences, at a cost that does not grow with their number.

    Args:
        schedule: Of the action.

        uid: Of the action; decides the jitter.

        start: The first instant not decided yet, aware UTC; not after *now*.

        now: Aware UTC.

        effective_from: Aware UTC; as for ``next_due``.

        catch_up: Its ``until`` must not be after *now*.
    """
    if not schedule.jitter and start > catch_up.until:
        return _tally_plain(schedule, start, now)
    window = []
    next_due_at = None
    since = max(start, catch_up.until + _RESOLUTION)
    for due in _walk(schedule, uid, start=since, effective_from=effective_from):
        if due.due_at > now:
            next_due_at = due.due_at
            break
        window.append(due)
    chosen: list[Due] = []
    missed: list[Missed] = []
    if start <= catch_up.until:
        if window and catch_up.runs == "latest":
            catch_up = catch_up._replace(runs="none")  # a later one runs anyway
        chosen, missed = _make_up_for(schedule, uid, start, effective_from, catch_up)
    run = tuple(due.occurrence for due in chosen + window)
    return Tally(run, tuple(missed), next_due_at)


def _tally_plain(schedule: Schedule, start: datetime, now: datetime) -> Tally:
    """Return the tally without jitter and outage: every occurrence runs."""
    run = []
    occurrence = schedule.next_from(start)
    while occurrence is not None and occurrence <= now:
        run.append(occurrence)
        occurrence = schedule.next_from(occurrence + _SECOND)
    return Tally(tuple(run), (), occurrence, is_plain=True)


def _make_up_for(
    schedule: Schedule,
    uid: str,
    start: datetime,
    effective_from: datetime,
    catch_up: CatchUp,
) -> tuple[list[Due], list[Missed]]:
    """
    Return what runs and what is missed of ``[start, catch_up.until]``.

    Missed occurrences lie before or after those that run, so they are at most two
    ranges.
    """
    left = partial(
        find_due, schedule, uid, now=catch_up.until, effective_from=effective_from
    )
    first = left(start=start, limit=1)
    after = max(start - schedule.jitter, effective_from) - _SECOND
    last = _find_last_due(schedule, uid, after, catch_up.until)
    if not first or last is None:
        return [], []
    since = max(start, catch_up.since)
    chosen = []
    if catch_up.runs == "all":
        chosen = left(start=since, limit=catch_up.limit)
    elif catch_up.runs == "latest" and last.due_at >= since:
        chosen = [last]
    return chosen, _find_missed(schedule, first[0], last, chosen, catch_up.limit)


def _find_last_due(
    schedule: Schedule, uid: str, after: datetime, until: datetime
) -> Due | None:
    """Return the last occurrence after *after* that was to be sent by *until*."""
    occurrence = find_last(schedule, after, until)
    while occurrence is not None:  # twice at most: jitter keeps the order
        due_at = schedule.due_at(occurrence, uid)
        if due_at <= until:
            return Due(occurrence, due_at)
        occurrence = find_last(schedule, after, occurrence - _SECOND)
    return None


def _find_missed(
    schedule: Schedule, first: Due, last: Due, chosen: Sequence[Due], limit: int
) -> list[Missed]:
    """Return the ranges from *first* to *last* that lie before and after *chosen*."""
    if not chosen:
        return [_count(schedule, first.occurrence, last.occurrence, limit)]
    missed = []
    if first.occurrence < chosen[0].occurrence:
        before = find_last(
            schedule,
            first.occurrence - _SECOND,
            chosen[0].occurrence - _SECOND,
        )
        assert before is not None  # first itself lies there
        missed.append(_count(schedule, first.occurrence, before, limit))
    if chosen[-1].occurrence < last.occurrence:
        after = schedule.next_from(chosen[-1].occurrence + _SECOND)
        assert after is not None  # last itself lies there
        missed.append(_count(schedule, after, last.occurrence, limit))
    return missed


def _count(schedule: Schedule, first: datetime, last: datetime, limit: int) -> Missed:
    count = count_occurrences(schedule, first, last + _SECOND, limit=limit + 1)
    return Missed(first, last, min(count, limit), count > limit)


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
