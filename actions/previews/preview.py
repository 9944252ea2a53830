"""
The next occurrences of an action, with everything that may surprise its author. Pure.

A preview shows what the tick will do, since both ask the same schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from typing_extensions import TypedDict

from actions.occurrences import Schedule, make_schedule
from actions.previews.either_day import find_either_days
from actions.previews.preview_notes import (
    HORIZON,
    ReadRule,
    TouchedNight,
    describe_pass,
    find_clock_changes,
    find_touched_nights,
    get_clock_change_at,
    make_read_rule,
)
from actions.previews.sentences import describe, format_day
from actions.when.excluding import find_day_start
from actions.when.rule import Rule
from actions.when.searching import find_occurrences
from models.fields.instants import format_instant
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange
from models.when import DueDateModel, IntervalModel, TimingModel

#: Notes that say why there is nothing to show.
_ENDED = "Never due again: ends_at has passed."
_FROM_EVENTS = "Occurrences depend on events, so none can be foreseen."

#: Excluded ranges of days that a preview mentions.
_EXCLUSIONS_SHOWN = 5

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


class PreviewOccurrenceJson(TypedDict):
    """
    One occurrence in three zones: UTC, that of the rule (``local``), and the viewer's.

    ``sent_at`` is the tick at which it is sent, jitter included. ``timezone`` is the
    former name of ``zone``.
    """

    utc: str
    local: str
    timezone: str
    zone: str
    offset: str
    viewer: str
    viewer_zone: str
    sent_at: str
    notes: list[str]


class ClockChangeJson(TypedDict):
    """
    A clock change within 13 months that touches a rule.

    ``change`` says what the clocks of ``zone`` do then, ``effect`` what becomes of the
    rule.
    """

    at: str
    zone: str
    change: str
    effect: str


class PreviewJson(TypedDict):
    """
    What an action will do: in a sentence, and its next occurrences.

    What clock changes do is in ``notes``, too.
    """

    sentence: str
    occurrences: list[PreviewOccurrenceJson]
    notes: list[str]
    clock_changes: list[ClockChangeJson]


@dataclass(frozen=True, slots=True)
class PreviewOccurrence:
    """
    One occurrence, as the author, the servers and the reader see it.

    Args:
        at: Aware UTC; together with the uid, it identifies the run.

        local: The same instant in the zone of the rule.

        viewer: The same instant in the zone of the reader.

        sent_at: Aware UTC; the tick at which it is sent, jitter included.

        notes: What may surprise about this occurrence.
    """

    at: datetime
    local: datetime
    viewer: datetime
    sent_at: datetime
    notes: tuple[str, ...]

    def as_json(self) -> PreviewOccurrenceJson:
        """Return the object that ``preview --json`` prints for an occurrence."""
        return {
            "utc": format_instant(self.at),
            "local": self.local.isoformat(),
            "timezone": str(self.local.tzinfo),
            "zone": str(self.local.tzinfo),
            "offset": _format_offset(self.local),
            "viewer": self.viewer.isoformat(),
            "viewer_zone": str(self.viewer.tzinfo),
            "sent_at": format_instant(self.sent_at),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Preview:
    """
    What an action will do.

    Args:
        sentence: The rule in words.

        occurrences: Oldest first; empty for actions that wait for events.

        notes: What is true of the rule as a whole.

        nights: Clock changes within 13 months that touch a rule; *notes* tell of them,
            too.
    """

    sentence: str
    occurrences: tuple[PreviewOccurrence, ...]
    notes: tuple[str, ...]
    nights: tuple[TouchedNight, ...] = ()

    def as_json(self) -> PreviewJson:
        """Return the object that ``preview --json`` prints."""
        return {
            "sentence": self.sentence,
            "occurrences": [each.as_json() for each in self.occurrences],
            "notes": list(self.notes),
            "clock_changes": [
                {
                    "at": format_instant(each.change.changed_at),
                    "zone": each.change.zone.key,
                    "change": each.change.describe(),
                    "effect": each.effect,
                }
                for each in self.nights
            ],
        }


def make_preview(
    action: ScheduledActionModel,
    timing: TimingModel | None,
    *,
    start: datetime,
    end: datetime | None = None,
    count: int = 10,
    viewer_zone: ZoneInfo,
) -> Preview:
    """
    Return what *action* will do from *start* on.

    Args:
        action: As the door read it; it need be neither active nor stored. Without a
            uid, the jitter of each run is not known yet.

        timing: As make_timing returns it; None if events drive the action.

        start: Aware, any zone; inclusive. The caller passes no earlier instant than
            ``effective_from``.

        end: Aware, any zone; exclusive. None: no end.

        count: How many occurrences to show at most.

        viewer_zone: The zone of the reader.

    Raises:
        RuleError: If a rule cannot be read; never for what the door has read.
    """
    notes = (
        [] if action.active else ["Not active: nothing runs until 'active' is true."]
    )
    if timing is None:
        ended = action.ends_at is not None and action.ends_at <= start
        notes.append(_ENDED if ended else _FROM_EVENTS)
        return Preview(describe(action), (), tuple(notes))

    start = start.astimezone(UTC)
    schedule = make_schedule(timing)
    either = find_either_days(action)
    rules = [make_read_rule(model) for model in timing.when]
    found = _find_first(schedule, start, end, count)
    occurrences = _annotate(schedule, rules, found, action.uid, viewer_zone)
    if not found:
        notes.append(_explain_nothing(schedule, timing, start, end))
    full = len(found) == count and found
    seen_until = found[-1] if full else (end or start + HORIZON)
    notes += [f"{each.message} {each.hint}".rstrip() for each in either]
    notes += _describe_excluded(schedule, start, seen_until)
    notes += _describe_sending(schedule, found, action.uid)
    nights = find_touched_nights(schedule, rules, start)
    notes += [each.describe() for each in nights]
    notes += _describe_grids(timing, rules, start)
    return Preview(describe(action), occurrences, tuple(notes), tuple(nights))


def _format_offset(local: datetime) -> str:
    """Return the UTC offset: ``+02:00``."""
    return local.isoformat().removeprefix(local.replace(tzinfo=None).isoformat())


def _find_first(
    schedule: Schedule, start: datetime, end: datetime | None, count: int
) -> list[datetime]:
    """Return the first occurrences in [start, end)."""
    last = datetime.max.replace(tzinfo=UTC) if end is None else end
    return find_occurrences(schedule, start, last, limit=count)


def _annotate(
    schedule: Schedule,
    rules: list[ReadRule],
    found: list[datetime],
    uid: str | None,
    viewer_zone: ZoneInfo,
) -> tuple[PreviewOccurrence, ...]:
    """Return *found* in each zone, with notes."""
    shown: list[PreviewOccurrence] = []
    for at in found:
        # In a union, an occurrence belongs to the first rule that is due then.
        each = next(each for each in rules if each.rule.next_from(at) == at)
        local = at.astimezone(each.rule.zone)
        notes = describe_occurrence(each, at)
        if shown and shown[-1].local.tzinfo is local.tzinfo:
            was, is_now = _format_offset(shown[-1].local), _format_offset(local)
            if was != is_now:
                notes.append(f"UTC offset is {is_now} from here on, was {was}")
        due_at = at if uid is None else schedule.due_at(at, uid)
        if due_at > at:
            notes.append(f"sent {(due_at - at) // _MINUTE} min later (jitter)")
        sent_at = due_at + (-due_at.second % 60) * _SECOND
        viewer = at.astimezone(viewer_zone)
        shown.append(PreviewOccurrence(at, local, viewer, sent_at, tuple(notes)))
    return tuple(shown)


def place_occurrence(
    rules: Sequence[ReadRule], at: datetime
) -> tuple[ZoneInfo, list[str]]:
    """
    Return the zone in which an occurrence is read, and what may surprise about it.

    Args:
        rules: Of one action; not empty.

        at: Aware UTC. If none of *rules* is due then, the zone is that of the first.
    """
    for each in rules:
        if each.rule.next_from(at) == at:
            return each.rule.zone, describe_occurrence(each, at)
    return rules[0].rule.zone, []


def describe_occurrence(each: ReadRule, at: datetime) -> list[str]:
    """Return what the clocks and the calendar do to one occurrence."""
    zone = each.rule.zone
    notes = []
    change = get_clock_change_at(zone, at)
    skipped = [] if change is None else each.find_affected(change)
    if change is not None and skipped and each.is_moved_by(change):
        notes.append(
            f"{skipped[0]:%H:%M} does not exist on this day; "
            "due at the first instant after the gap"
        )
    which_pass = describe_pass(zone, at)
    if which_pass is not None:
        notes.append(which_pass)
    local = at.astimezone(zone)
    if (local.month, local.day) == (2, 29):
        notes.append("leap day")
    return notes


def _explain_nothing(
    schedule: Schedule, timing: TimingModel, start: datetime, end: datetime | None
) -> str:
    """Return why nothing is shown."""
    following = schedule.next_from(start)
    if following is not None and end is not None:
        shown = format_instant(following)
        return f"Nothing is due before {format_instant(end)}; next at {shown}."
    if schedule.ends_at is not None and schedule.ends_at <= start:
        return _ENDED
    if all(isinstance(model, DueDateModel) for model in timing.when):
        return "Never due again: the due date has passed or is left out."
    return "Never due again: no date matches within the bounds."


def _describe_sending(
    schedule: Schedule, found: list[datetime], uid: str | None
) -> list[str]:
    """Return notes on when the occurrences are sent."""
    notes = []
    if any(at.second for at in found):
        notes.append("Finer than a minute: sent at the next tick, on the minute.")
    if schedule.jitter and uid is None:
        minutes = schedule.jitter // _MINUTE
        notes.append(
            f"Each run is sent up to {minutes} min later; how much follows from the "
            "uid, which this action does not have yet."
        )
    return notes


def _describe_grids(
    timing: TimingModel, rules: list[ReadRule], start: datetime
) -> list[str]:
    """Return notes on clock changes that move the local times of intervals."""
    notes = []
    for model, each in zip(timing.when, rules, strict=True):
        # An interval of calendar units has a twin, and notes of its own.
        if not isinstance(model, IntervalModel) or each.twin is not None:
            continue
        change = next(find_clock_changes(each.rule.zone, start, start + HORIZON), None)
        if change is not None:
            notes.append(
                f"{change.describe()}; intervals are elapsed time, so local "
                "times shift from then on"
            )
    return notes


def _describe_excluded(
    schedule: Schedule, start: datetime, until: datetime
) -> list[str]:
    """Return notes on excluded days up to *until* that would have occurrences."""
    notes: list[str] = []
    for first, last in schedule.excluded:
        if len(notes) == _EXCLUSIONS_SHOWN:
            break
        leaves_out = (
            _has_occurrence(schedule, rule, (first, last), start, until)
            for rule in schedule.rules
        )
        if any(leaves_out):
            days = format_day(first)
            days += "" if first == last else f" to {format_day(last)}"
            notes.append(f"Left out by except: {days}.")
    return notes


def _has_occurrence(
    schedule: Schedule, rule: Rule, days: DayRange, start: datetime, until: datetime
) -> bool:
    """Tell whether *rule* is due on *days*, within [start, until] and its bounds."""
    first, last = days
    long_before = start - _DAY
    day_start = find_day_start(first, rule.zone, after=long_before)
    low = max(start, day_start, schedule.starts_at or start)
    if low > until or last < start.astimezone(rule.zone).date():
        return False
    due_at = rule.next_from(low)
    if due_at is None or due_at > until:
        return False
    if schedule.ends_at is not None and due_at >= schedule.ends_at:
        return False
    return first <= due_at.astimezone(rule.zone).date() <= last
