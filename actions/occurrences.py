"""
When a scheduled action is due. Pure: time in, occurrences out.

Everything is derived from one question, "what is the first occurrence at or after
this instant?", so looking back finds exactly what looking ahead promised. Every
occurrence is aware UTC on a whole second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import islice, takewhile
from typing import NamedTuple

from actions.when import RULES
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

#: Parsed schedules kept: the distinct timings of the actions that are due in one
#: tick, at a few kilobytes each. A miss costs a parse, about 0.2 ms.
PARSED_TIMINGS = 4096

#: Rules are only ever asked about these years, see Rule.next_from.
_EARLIEST = datetime(1900, 1, 2, tzinfo=UTC)
_LATEST = datetime(9990, 1, 1, tzinfo=UTC)

_RESOLUTION = timedelta.resolution
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
    dues = _walk(schedule, uid, start=start, effective_from=effective_from)
    return list(islice(takewhile(lambda due: due.due_at <= now, dues), limit))


def _walk(
    schedule: Schedule, uid: str, *, start: datetime, effective_from: datetime | None
) -> Iterator[Due]:
    """Yield what is due at or after *start*, in order and one by one."""
    before_start = as_utc(start) - timedelta.resolution
    due = next_due(schedule, uid, after=before_start, effective_from=effective_from)
    while due is not None:
        yield due
        # They are sent in the order of occurrences, so no search is needed here.
        following = schedule.next_from(due.occurrence + _SECOND)
        if following is None:
            return
        due = Due(following, schedule.due_at(following, uid))


class CatchUp(NamedTuple):
    """
    What is made up for of that which an outage left.

    Args:
        runs: "none", "latest" or "all", as in an action.

        since: Aware UTC: nothing that was due earlier.

        until: Aware UTC: what was due by then is what the outage left.

        limit: The most that run, and that are counted of what does not.
    """

    runs: str
    since: datetime
    until: datetime
    limit: int


class Missed(NamedTuple):
    """A range of occurrences that do not run; *more*: there are more than *number*."""

    first: datetime
    last: datetime
    number: int
    more: bool


class Tally(NamedTuple):
    """
    The occurrences of one action, sorted by what becomes of them.

    Args:
        run: Those that run, oldest first.

        missed: Those that an outage left and that do not run: at most one range
            before and one after what is made up for.

        next_due_at: When the first is due that is none of these. None: never.

        is_plain: Whether only the rules decided: no jitter, no outage. So it holds for
            every action with these rules and the same start.
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

    What is due after ``catch_up.until`` runs. Of what is older *catch_up* chooses; that
    costs no more, however much there is.

    Args:
        schedule: Of the action.

        uid: Of the action; decides the jitter.

        start: Aware UTC: the first instant not decided yet, and not after *now*.

        now: Aware UTC.

        effective_from: Aware UTC; as for next_due.

        catch_up: Its ``until`` is not after *now*.
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
            catch_up = catch_up._replace(runs="none")  # the window has a later one
        chosen, missed = _make_up_for(schedule, uid, start, effective_from, catch_up)
    run = tuple(due.occurrence for due in chosen + window)
    return Tally(run, tuple(missed), next_due_at)


def _tally_plain(schedule: Schedule, start: datetime, now: datetime) -> Tally:
    """Return what runs where there is neither jitter nor an outage: all of it."""
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
    Choose what runs of that which was due in ``[start, catch_up.until]``.

    What is missed lies before or after what runs, so it is at most two ranges.
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
    """Return the last occurrence after *after* that was due by *until*."""
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
    """Return what lies between *first* and *last*, before and after *chosen*."""
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
