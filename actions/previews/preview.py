"""
The next occurrences of an action, with everything that may surprise its author. Pure.

A preview shows what the tick will do, since both ask the same schedule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple, NoReturn
from zoneinfo import ZoneInfo

from actions.occurrences import Schedule, make_schedule
from actions.previews.clock_words import join_words
from actions.previews.preview_notes import (
    HORIZON,
    ReadRule,
    TouchedNight,
    describe_pass,
    find_clock_changes,
    find_either_days,
    find_touched_nights,
    get_clock_change_at,
    make_read_rule,
)
from actions.previews.sentences import describe, describe_terms, format_day
from actions.when.searching import find_occurrences
from models.door.documents import ReadContext, action_document, read_action_object
from models.door.json_text import decode_json, move_to_line
from models.errors import InvalidDocumentError, Problem, RuleError
from models.fields.instants import format_instant, parse_instant
from models.fields.strict_model import show
from models.json_form import ASIDE
from models.operation_state import Queue
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing
from models.when import AfterActionModel, DueDateModel, IntervalModel, TimingModel

#: Notes that say why there is nothing to show.
_ENDED = "Never due again: ends_at has passed."
_FROM_EVENTS = "Occurrences depend on events, so none can be foreseen."
_FROM_ACTION = "It starts as another action ends, so no time can be foreseen."

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class PreviewOccurrence:
    """
    One occurrence in three zones: UTC, that of the rule (``local``), and the viewer's.

    Args:
        at: Aware UTC; together with the uid, it identifies the run.
        sent_at: Aware UTC; the tick or second at which it is sent, jitter included.
        moved_from: The excepted days, local, from which it was moved.
        notes: What may surprise about this occurrence.
    """

    at: datetime = field(metadata={"serialization_alias": "utc"})
    local_text: str = field(metadata={"serialization_alias": "local"})
    zone: str
    offset: str
    viewer_text: str = field(metadata={"serialization_alias": "viewer"})
    viewer_zone: str
    sent_at: datetime
    moved_from: tuple[date, ...]
    notes: tuple[str, ...]
    local: datetime = field(metadata=ASIDE)
    viewer: datetime = field(metadata=ASIDE)


@dataclass(frozen=True, slots=True)
class Preview:
    """
    What an action will do.

    Args:
        sentence: The rule in words.
        occurrences: Oldest first; empty for actions that wait for events.
        notes: What is true of the rule as a whole.
        clock_changes: Those within 13 months that touch a rule; *notes* tell of them,
            too.
    """

    sentence: str
    occurrences: tuple[PreviewOccurrence, ...]
    notes: tuple[str, ...]
    clock_changes: tuple[TouchedNight, ...]


def make_preview(
    action: ScheduledActionModel,
    timing: TimingModel | None,
    *,
    start: datetime,
    end: datetime | None = None,
    count: int,
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
    notes = [*describe_terms(action_document(action))]
    if not action.active:
        notes.insert(0, "Not active: nothing runs until 'active' is true.")
    if timing is None:
        ended = action.ends_at is not None and action.ends_at <= start
        follows = isinstance(action.when, AfterActionModel)
        unknown = _FROM_ACTION if follows else _FROM_EVENTS
        notes.append(_ENDED if ended else unknown)
        return Preview(describe(action), (), tuple(notes), ())

    start = start.astimezone(UTC)
    schedule = make_schedule(timing)
    rules = [make_read_rule(rule) for rule in schedule.rules]
    last = datetime.max.replace(tzinfo=UTC) if end is None else end
    found = find_occurrences(schedule, start, last, limit=count)
    at_second = action.operations.queue is Queue.TASKS
    each_s = 1 if at_second else 60
    occurrences = _annotate(schedule, found, action.uid, viewer_zone, each_s)
    if not found:
        notes.append(_explain_nothing(schedule, timing, start, end))
    either = find_either_days(action)
    notes += [f"{each.message} {each.hint}".rstrip() for each in either]
    if not at_second and any(at.second for at in found):
        notes.append("Finer than a minute: sent at the next tick, on the minute.")
    if schedule.jitter and action.uid is None:
        unknown = "how much follows from the uid, which this action does not have yet"
        minutes = schedule.jitter // _MINUTE
        notes.append(f"Each run is sent up to {minutes} min later; {unknown}.")
    nights = find_touched_nights(schedule, rules, start)
    notes += [each.describe() for each in nights]
    notes += _describe_grids(timing, rules, start)
    return Preview(describe(action), occurrences, tuple(notes), tuple(nights))


def _format_offset(local: datetime) -> str:
    """Return the UTC offset: ``+02:00``."""
    return local.isoformat().removeprefix(local.replace(tzinfo=None).isoformat())


def _annotate(
    schedule: Schedule,
    found: list[datetime],
    uid: str | None,
    viewer_zone: ZoneInfo,
    each_s: int,
) -> tuple[PreviewOccurrence, ...]:
    """Return *found* in each zone, with notes; they are sent at each *each_s* s."""
    shown: list[PreviewOccurrence] = []
    for at in found:
        zone, notes, moved_from = place_occurrence(schedule, at)
        local = at.astimezone(zone)
        if shown and shown[-1].local.tzinfo is local.tzinfo:
            was, is_now = shown[-1].offset, _format_offset(local)
            if was != is_now:
                notes.append(f"UTC offset is {is_now} from here on, was {was}")
        due_at = at if uid is None else schedule.due_at(at, uid)
        if due_at > at:
            notes.append(f"sent {(due_at - at) // _MINUTE} min later (jitter)")
        viewer = at.astimezone(viewer_zone)
        shown.append(
            PreviewOccurrence(
                at=at,
                local_text=local.isoformat(),
                zone=zone.key,
                offset=_format_offset(local),
                viewer_text=viewer.isoformat(),
                viewer_zone=viewer_zone.key,
                sent_at=due_at + timedelta(seconds=-due_at.second % each_s),
                moved_from=moved_from,
                notes=tuple(notes),
                local=local,
                viewer=viewer,
            )
        )
    return tuple(shown)


class PlacedOccurrence(NamedTuple):
    """
    What is to be said of one occurrence.

    Args:
        zone: In which it is read.
        notes: What may surprise about it.
        moved_from: The excepted days from which it was moved.
    """

    zone: ZoneInfo
    notes: list[str]
    moved_from: tuple[date, ...] = ()


def place_occurrence(schedule: Schedule, at: datetime) -> PlacedOccurrence:
    """
    Return what is to be said of the occurrence at *at* (aware UTC).

    In a union, an occurrence belongs to the first rule that is due then. If none is,
    the zone is that of the first rule.
    """
    placed = schedule.find_rule(at)
    if placed is None:
        return PlacedOccurrence(schedule.rules[0].zone, [])
    zone = placed.rule.zone
    if not placed.origins:
        return PlacedOccurrence(zone, _describe(make_read_rule(placed.rule), at))
    days = tuple(local.date() for local in placed.origins)
    notes = [f"moved from {join_words(map(format_day, days))}"]
    if placed.origins[0].time() != at.astimezone(zone).time():
        notes.append(_describe_gap(placed.origins[0]))
    return PlacedOccurrence(zone, notes + _describe_day(zone, at), days)


def _describe(each: ReadRule, at: datetime) -> list[str]:
    """Return what the clocks and the calendar do to one occurrence."""
    change = get_clock_change_at(each.rule.zone, at)
    skipped = [] if change is None else each.find_affected(change)
    notes = []
    if change is not None and skipped and each.is_moved_by(change):
        notes.append(_describe_gap(skipped[0]))
    return notes + _describe_day(each.rule.zone, at)


def _describe_gap(local: datetime) -> str:
    return (
        f"{local:%H:%M} does not exist on this day; "
        "due at the first instant after the gap"
    )


def _describe_day(zone: ZoneInfo, at: datetime) -> list[str]:
    """Return which pass of a repeated hour it is, and whether it is a leap day."""
    which_pass = describe_pass(zone, at)
    local = at.astimezone(zone)
    is_leap_day = (local.month, local.day) == (2, 29)
    notes = [] if which_pass is None else [which_pass]
    return [*notes, "leap day"] if is_leap_day else notes


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
                f"{change.describe()}; hours of an interval are elapsed time, so "
                "local times shift from then on"
            )
    return notes


#: Occurrences that one line may ask for: two months of every minute.
BATCH_LIMIT = 100_000


def preview_batch_line(
    line: str,
    *,
    number: int = 1,
    default_timezone: str = "UTC",
    holidays: Mapping[str, Sequence[DayRange]] | None = None,
) -> str:
    """
    Return the answer to one line of ``preview --batch``; never raises.

    Made for comparison with other schedulers: the answers are bare instants.

    Args:
        line: ``{"id", "action", "from", "until"}``: *action* is a document as it is
            posted; *from* (inclusive) and *until* (exclusive) have a UTC offset. An
            interval without an anchor begins at *from*, floored to the minute, since
            there is no time of creation. A due date may have passed.
        number: That of the line, from 1.
        default_timezone: The zone of rules that name none.
        holidays: As for make_timing.

    Returns:
        ``{"id", "occurrences": ["2026-11-23T06:00:00Z", ...]}``, without jitter and at
        most BATCH_LIMIT; or ``{"id", "error": {"pointer", "message", "hint"}}``, whose
        pointer is into the object on the line. An id that cannot be read is null.
    """
    answer: dict[str, object] = {"id": None}
    try:
        request = _read_object(line)
        answer["id"] = request.get("id")
        found = _answer(request, default_timezone, holidays)
    except InvalidDocumentError as error:
        first, *more = shown = [
            asdict(move_to_line(problem, number)) for problem in error.problems
        ]
        answer["error"] = {**first, "problems": shown} if more else first
    else:
        answer["occurrences"] = [format_instant(at) for at in found]
    return json.dumps(answer)


def _read_object(line: str) -> dict[str, object]:
    """Return the object on *line*."""
    request = decode_json(line)
    if not isinstance(request, dict):
        hint = 'Write one object a line: {"id", "action", "from", "until"}.'
        _refuse("", f"{show(request)} is not an object.", hint)
    return request


def _answer(
    request: dict[str, object],
    default_timezone: str,
    holidays: Mapping[str, Sequence[DayRange]] | None,
) -> list[datetime]:
    """Return the occurrences that *request* asks for."""
    for key in ("id", "action", "from", "until"):
        if request.get(key) is None:
            hint = "Write all four keys on every line."
            _refuse(f"/{key}", f"{key!r} is missing.", hint)
    start, end = _read_bound(request, "from"), _read_bound(request, "until")
    if end < start:
        _refuse("/until", "'until' is earlier than 'from'.", "Swap the two.")

    try:
        action = read_action_object(request["action"], ReadContext(default_timezone))
        timing = make_timing(action, created_at=start, holidays=holidays or {})
    except InvalidDocumentError as error:
        placed = (
            Problem(f"/action{each.pointer}", each.message, each.hint)
            for each in error.problems
        )
        raise InvalidDocumentError(tuple(placed)) from None

    if timing is None:
        message = "This action waits for events, so no occurrence can be foreseen."
        _refuse("/action/when", message, "Ask only about rules of time.")

    found = find_occurrences(make_schedule(timing), start, end, limit=BATCH_LIMIT + 1)
    if len(found) > BATCH_LIMIT:
        message = f"There are more than {BATCH_LIMIT:,} occurrences in this range."
        _refuse("/until", message, "Ask for a shorter range.")
    return found


def _read_bound(request: dict[str, object], key: str) -> datetime:
    """Return the instant under *key*."""
    text = request[key]
    if not isinstance(text, str):
        hint = "Write '2026-11-23T06:00:00Z'."
        _refuse(f"/{key}", f"{show(text)} is not text.", hint)
    try:
        return parse_instant(text)
    except RuleError as error:
        _refuse(f"/{key}", error.message, error.hint)


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise InvalidDocumentError((Problem(pointer, message, hint),))
