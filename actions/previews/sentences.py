"""
A rule in one plain sentence, for admins and for the mails they write. Pure.

A sentence never says less than its rule: a rule that has no good words is quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any, assert_never
from zoneinfo import ZoneInfo

from actions.previews.clock_words import (
    describe_calendar,
    describe_cron,
    join_words,
    list_weekdays,
)
from models.days_off import DateRangeModel, HolidaysModel, WeekdaysModel
from models.event import EventName
from models.fields.addresses import name_monitor
from models.fields.delay import parse_time_of_day
from models.fields.duration import Duration
from models.fields.field_types import DAYS_OF_WEEK, MONTHS
from models.fields.instants import parse_due_date, parse_instant
from models.fields.zone import load_zone
from models.scheduled_action import ScheduledActionModel
from models.when import (
    AfterActionModel,
    AfterEventModel,
    CalendarModel,
    CronModel,
    DueDateModel,
    EventModel,
    IntervalModel,
    OnEventModel,
    SingleModel,
    TimingModel,
    WorkingDayModel,
)

#: Excluded days that are listed; further ones are counted.
_MOST_EXCLUDED = 5

_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}
_WEEK = 7

#: Events of the instance in words, as they happen and as they did.
HAPPENED = {
    EventName.USER_CREATED: "a user is created",
    EventName.USER_ACTIVATED: "a user is activated",
    EventName.USER_LAST_SEEN: "a user is seen",
}
WAS = {
    EventName.USER_CREATED: "a user was created",
    EventName.USER_ACTIVATED: "a user was activated",
    EventName.USER_LAST_SEEN: "a user was last seen",
}


#: How the run of another action ended, in words.
ENDED = {"success": "succeeded", "failure": "failed", "end": "ended"}


def describe(action: ScheduledActionModel | TimingModel | SingleModel) -> str:
    """
    Return when *action* is due, as one sentence without a full stop.

    Args:
        action: An action or timing with all its bounds, or one of its rules. The door
            has read it, so rules, zones and durations are valid.

    >>> describe(CronModel(cron_rule="0 7 * * 1", timezone="Europe/Paris"))
    'Mondays at 07:00, Europe/Paris'
    """
    if not isinstance(action, ScheduledActionModel | TimingModel):
        return _capitalize(_describe_rule(action))

    when = action.when if isinstance(action.when, tuple) else (action.when,)
    sentence = "; also ".join(_describe_rule(rule) for rule in when)
    zones = {rule.timezone for rule in when}
    zone = load_zone(zones.pop() if len(zones) == 1 else "UTC")
    if action.starts_at is not None:
        sentence += f"; not before {_format_instant(action.starts_at, zone)}"
    if action.ends_at is not None:
        sentence += f"; until {_format_instant(action.ends_at, zone)}"
    if isinstance(action, TimingModel):
        excluded = [_describe_days(first, last) for first, last in action.excluded]
        excluded[:0] = list_weekdays(action.weekdays)
    else:
        excluded = list_weekdays(action.excepted_weekdays)
        excluded += [
            _describe_exception(entry)
            for entry in action.except_
            if not isinstance(entry, WeekdaysModel)
        ]
    if excluded:
        if (more := len(excluded) - _MOST_EXCLUDED) > 0:
            excluded = [*excluded[:_MOST_EXCLUDED], f"{more} more"]
        sentence += f"; except {join_words(excluded)}"
        if action.instead is not None:
            sentence += f", moved to the nearest other day {action.instead}"
    if action.jitter is not None and not Duration.parse(action.jitter).is_zero:
        sentence += f"; up to {describe_duration(action.jitter)} later"
    return _capitalize(sentence)


def _capitalize(sentence: str) -> str:
    """Return *sentence* with a capital at the beginning, otherwise unchanged."""
    return sentence[:1].upper() + sentence[1:]


def _describe_rule(rule: SingleModel) -> str:
    """Return one rule and its zone, for the middle of a sentence."""
    match rule:
        case CronModel() | CalendarModel() | WorkingDayModel():
            return _describe_local_rule(rule)
        case IntervalModel():
            return _describe_interval(rule)
        case DueDateModel():
            return _describe_due_date(rule)
        case OnEventModel():
            event = _describe_event(rule.on, HAPPENED, "is sent")
            return f"when {event}{_describe_waiting(rule)}"
        case AfterEventModel():
            delay = describe_duration(rule.delay)
            event = _describe_event(rule.after, WAS, "was sent")
            return f"{delay} after {event}{_describe_waiting(rule)}"
        case AfterActionModel():
            delay = describe_duration(rule.delay) + " "
            delay = "" if Duration.parse(rule.delay).is_zero else delay
            return f"{delay}after {rule.after_action!r} {ENDED[rule.on]}"
        case _:
            assert_never(rule)


def _describe_local_rule(rule: CronModel | CalendarModel | WorkingDayModel) -> str:
    """Return a rule of local times, and its zone."""
    match rule:
        case CronModel():
            return f"{describe_cron(rule.cron_rule)}, {rule.timezone}"
        case CalendarModel():
            words, zone_name = describe_calendar(rule.calendar)
            return f"{words}, {zone_name or rule.timezone}"
        case WorkingDayModel():
            time = f"{parse_time_of_day(rule.at):%H:%M}"
            day = _describe_working_day(rule.working_day)
            return f"on the {day} of each month at {time}, {rule.timezone}"
        case _:
            assert_never(rule)


def _describe_event(name: str, phrases: dict[EventName, str], verb: str) -> str:
    """Return an event of the instance in words, or one of the app by its name."""
    for event, phrase in phrases.items():
        if event == name:
            return phrase
    return f"the event {name} {verb} for a user"


def _describe_waiting(rule: EventModel) -> str:
    """Return the time of day that is waited for; empty if there is none."""
    return f", at the next {rule.at}, {rule.timezone}" if rule.at else ""


def _describe_interval(rule: IntervalModel) -> str:
    """Return the step of a grid and its beginning."""
    every = describe_duration(rule.every)
    every = every.removeprefix("1 ") if " and " not in every else every
    if rule.anchor is None:
        return f"every {every}, counted from its creation"

    zone = load_zone(rule.timezone)
    local = parse_instant(rule.anchor, zone).astimezone(zone)
    start = f"{local.date().isoformat()} {_format_time(local)}"
    step = Duration.parse(rule.every)
    is_of_weeks = not (step.months or step.rest or step.days % _WEEK)
    if step.is_calendar and is_of_weeks:  # each is on the weekday of the first
        start = f"{DAYS_OF_WEEK[local.weekday()]} {start}"
    place = " UTC" if rule.timezone == "UTC" else f", {rule.timezone}"
    return f"every {every} from {start}{place}"


def describe_duration(text: str) -> str:
    """Return an ISO 8601 duration in words: ``7 days and 30 seconds``."""
    duration = Duration.parse(text)
    years, months = divmod(duration.months, 12)
    # Weeks are named where their author did.
    weeks, days = divmod(duration.days, _WEEK) if "W" in text else (0, duration.days)
    hours, below = divmod(duration.rest, timedelta(hours=1))
    minutes, seconds = divmod(below.seconds, 60)
    counts = {
        "year": years,
        "month": months,
        "week": weeks,
        "day": days,
        "hour": hours,
        "minute": minutes,
        "second": seconds + below.microseconds / 1e6,
    }
    words = [
        f"{count:g} {unit}" if count == 1 else f"{count:g} {unit}s"
        for unit, count in counts.items()
        if count
    ]
    return join_words(words or ["0 seconds"])


def _describe_due_date(rule: DueDateModel) -> str:
    zone = load_zone(rule.timezone)
    local = parse_due_date(rule.due_date, zone).astimezone(zone)
    day = f"{DAYS_OF_WEEK[local.weekday()]} {format_day(local)}"
    return f"once, on {day} at {_format_time(local)}, {rule.timezone}"


def _describe_working_day(number: int) -> str:
    """
    Return the n-th working day in words.

    >>> _describe_working_day(-2)
    '2nd to last working day'
    """
    if number == -1:
        return "last working day"
    return f"{tell_nth(abs(number))} {'to last ' if number < 0 else ''}working day"


def tell_nth(count: int) -> str:
    """
    Return the number of a day of a month, as it is said.

    >>> tell_nth(22), tell_nth(13)
    ('22nd', '13th')
    """
    suffix = "th" if 10 <= count < 20 else _SUFFIXES.get(count % 10, "th")
    return f"{count}{suffix}"


def _describe_exception(entry: date | DateRangeModel | HolidaysModel) -> str:
    """Return dates of ``except`` in words."""
    if isinstance(entry, HolidaysModel):
        return f"the days of {entry.calendar!r}"
    if isinstance(entry, DateRangeModel):
        return _describe_days(entry.from_, entry.until)
    return format_day(entry)


def _describe_days(first: date, last: date) -> str:
    """Return one day or a range."""
    if first == last:
        return format_day(first)
    return f"{format_day(first)} to {format_day(last)}"


def format_day(day: date) -> str:
    """Return ``25 December 2026``, whatever the host's language."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _format_time(local: datetime) -> str:
    """Return the time of day, with seconds if there are any."""
    return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"


def _format_instant(instant: datetime, zone: ZoneInfo) -> str:
    """Return a bound as the clocks of *zone* show it."""
    local = instant.astimezone(zone)
    return f"{local.date().isoformat()} {_format_time(local)} {zone.key}"


def describe_terms(document: Mapping[str, Any]) -> tuple[str, ...]:
    """
    Return a sentence for each thing in which *document* departs from what is usual.

    Args:
        document: Of an action, as it is stored.

    >>> describe_terms({"name": "daily", "retries": 5, "retry_after": "PT1M"})
    ('Up to 5 retries, the first after 1 minute, then twice that, up to a day.',)
    """
    return tuple(_describe(document))


def _describe(document: Mapping[str, Any]) -> Iterator[str]:
    if document.get("if"):
        yield "The steps after refresh run only if it brought something new."
    retries, after = document.get("retries"), document.get("retry_after")
    first = after and (
        f"the first after {describe_duration(after)}, then twice that, up to a day"
    )
    match retries:
        case None:
            if first:
                yield f"Of its retries, {first}."
        case 0:
            yield "No retries: what fails once has failed."
        case 1:
            pause = after and f", after {describe_duration(after)}"
            yield f"At most 1 retry{pause or ''}."
        case _:
            yield f"Up to {retries} retries{(first and f', {first}') or ''}."
    expected = document.get("expect") or {}
    told = {"within": "end within {} of its time", "takes": "take at most {}"}
    said = [
        words.format(describe_duration(expected[key]))
        for key, words in told.items()
        if expected.get(key)
    ]
    if said:
        yield f"Expected to {' and to '.join(said)}; else a notice tells."
    failures = document.get("rest_after")
    if failures is not None:
        yield (
            "Paused as soon as a run fails."
            if failures == 1
            else f"Paused after {failures} failures in a row."
        )
    if document.get("ping"):
        host = name_monitor(document["ping"])
        yield f"{host} is told when a run starts, and how it ended."
