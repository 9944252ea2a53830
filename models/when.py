"""When an action is due, as its admin writes it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)

from models.days_off import MOST_WORKING_DAYS, Instead
from models.errors import RuleError
from models.event import EventText
from models.expressions.calendar import CalendarExpression
from models.expressions.cron import CronExpression
from models.fields.delay import is_time_of_day, parse_time_of_day
from models.fields.duration import Duration, parse_interval
from models.fields.field_types import Name, RuleText, ZoneName, parsed_by
from models.fields.instants import parse_due_date
from models.fields.strict_model import (
    MOST_PROBLEMS,
    Complaint,
    DocumentModel,
    find_near,
    optional,
    refuse,
    refuse_all,
    say_unknown_key,
    show,
    suggest,
)
from models.fields.zone import load_zone

#: The key of the default zone in the context of a validation.
DEFAULT_TIMEZONE = "default_timezone"


#: Rules of one action; more are better written as one rule, or as several actions.
MOST_RULES = 20

DurationText = Annotated[RuleText, parsed_by(Duration.parse)]
TimeOfDay = Annotated[RuleText, parsed_by(parse_time_of_day)]


class _ZonedModel(DocumentModel):
    """A kind of ``when``; without a zone, it gets the default that the door passes."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_zone(cls, value: Any, info: ValidationInfo) -> Any:
        context = info.context or {}
        if isinstance(value, dict) and DEFAULT_TIMEZONE in context:
            return {"timezone": context[DEFAULT_TIMEZONE], **value}

        return value


def _check_due_date(text: str, info: ValidationInfo) -> str:
    # A zone that was refused is not in the data, and is reported itself.
    parse_due_date(text, load_zone(info.data.get("timezone", "UTC")))
    return text


class CronModel(_ZonedModel):
    """
    A cron rule of five fields, read in *timezone* (an IANA name).

    Args:
        cron_rule: Five fields: minute, hour, day, month, weekday.
        timezone: IANA name of the zone in which the rule is read.
    """

    cron_rule: Annotated[RuleText, parsed_by(CronExpression.parse)] = Field(
        examples=["0 7 * * 1"]
    )
    timezone: ZoneName = Field(default="UTC", examples=["Europe/Paris"])


class DueDateModel(_ZonedModel):
    """
    One instant: local time in *timezone*, or a time with an offset.

    Args:
        due_date: The one instant; local time if it has no offset.
        timezone: IANA name of the zone of a local time.
    """

    timezone: ZoneName = Field(default="UTC", examples=["Europe/Paris"])
    due_date: RuleText = Field(examples=["2026-12-01T09:00:00"])

    _check_due_date = field_validator("due_date")(_check_due_date)


class IntervalModel(_ZonedModel):
    """
    A fixed grid: *anchor* plus n times *every* (ISO 8601 duration).

    Args:
        every: ISO 8601 duration, at least PT1M, of a lone run_task PT1S; days are of
            the calendar.
        timezone: IANA name of the zone whose calendar and clocks it follows.
        anchor: An instant of the grid. Left out: the creation of the action.
    """

    every: Annotated[RuleText, parsed_by(parse_interval)] = Field(examples=["PT24H"])
    timezone: ZoneName = Field(default="UTC", examples=["Europe/Paris"])
    anchor: RuleText | None = optional("2026-01-01T00:00:00Z")

    @field_validator("anchor")
    @classmethod
    def _check_anchor(cls, text: str | None, info: ValidationInfo) -> str | None:
        return None if text is None else _check_due_date(text, info)


class CalendarModel(_ZonedModel):
    """
    A calendar rule of systemd, read in *timezone* unless it names a zone itself.

    Args:
        calendar: A calendar expression of systemd.
        timezone: IANA name of its zone, unless the expression names one.
    """

    calendar: Annotated[RuleText, parsed_by(CalendarExpression.parse)] = Field(
        examples=["Mon..Fri *-*-* 09:00:00"]
    )
    timezone: ZoneName = Field(default="UTC", examples=["Europe/Paris"])


class WorkingDayModel(_ZonedModel):
    """
    The n-th working day of each month, from its beginning or its end.

    Args:
        working_day: Which of each month: 1 is the first, -1 the last. Months that have
            fewer are left out; "except" says which days are none.
        at: Local time of day: hour and minute.
        timezone: IANA name of the zone of days and time.
    """

    # How many there may be depends on the action, which says so.
    working_day: int = Field(
        strict=True,
        examples=[5],
        json_schema_extra={"minimum": -MOST_WORKING_DAYS, "maximum": MOST_WORKING_DAYS},
    )
    at: TimeOfDay = Field(examples=["09:00"])
    timezone: ZoneName = Field(default="UTC", examples=["Europe/Paris"])

    @field_validator("working_day")
    @classmethod
    def _refuse_zero(cls, number: int) -> int:
        if number == 0:
            msg = "0 is no day of a month."
            raise RuleError(msg, "Write 1 for the first working day, -1 for the last.")

        return number


class OnEventModel(_ZonedModel):
    """
    The moment at which something happens to a user; one occurrence for each user.

    Args:
        on: Name of an event of users.
        at: Waits for this local time of day, HH:MM.
        timezone: IANA name of the zone in which times are shown.
    """

    on: EventText = Field(examples=["instance.user.created"])
    at: TimeOfDay | None = optional("09:00")
    timezone: ZoneName = Field(default="UTC", examples=["Europe/Paris"])

    @property
    def event(self) -> str:
        """Name of the event, whichever the kind."""
        return self.on


class AfterEventModel(_ZonedModel):
    """
    Some time (ISO 8601 duration, days and months of the calendar) after an event.

    Args:
        after: Name of an event of users.
        delay: ISO 8601 duration since the event; days are of the calendar.
        at: Then waits for this local time of day, HH:MM.
        timezone: IANA name of the zone in which days and months are counted.
    """

    after: EventText = Field(examples=["instance.user.last_seen"])
    delay: DurationText = Field(examples=["P7DT30S"])
    at: TimeOfDay | None = optional("09:00")
    timezone: ZoneName = Field(default="UTC", examples=["Europe/Paris"])

    @property
    def event(self) -> str:
        """Name of the event, whichever the kind."""
        return self.after


class AfterActionModel(_ZonedModel):
    """
    Some time after a run of another action of the same small app has ended.

    Args:
        after_action: Uid or name of another action of the same small app.
        on: How its run has to end. end: in success, failure or cancellation.
        delay: ISO 8601 duration since that end; days are of the calendar.
        timezone: IANA name of the zone in which days and months are counted.
    """

    after_action: Name = Field(examples=["nightly-refresh"])
    on: Literal["success", "failure", "end"] = "success"
    delay: DurationText = Field(default="PT0S", examples=["PT10M"])
    timezone: ZoneName = Field(default="UTC", examples=["Europe/Paris"])


#: Kinds whose occurrences depend on the clock alone. Several may be combined.
TimeModel = CronModel | DueDateModel | IntervalModel | CalendarModel | WorkingDayModel
#: Kinds whose occurrences depend on what happens to users.
EventModel = OnEventModel | AfterEventModel
#: What ``when`` may be: one kind, or a list of time kinds (their union).
WhenModel = TimeModel | EventModel | AfterActionModel | tuple[TimeModel, ...]

#: The key that names each kind.
TIME_KINDS: Mapping[str, type[TimeModel]] = {
    "cron_rule": CronModel,
    "due_date": DueDateModel,
    "every": IntervalModel,
    "calendar": CalendarModel,
    "working_day": WorkingDayModel,
}
EVENT_KINDS: Mapping[str, type[EventModel]] = {
    "on": OnEventModel,
    "after": AfterEventModel,
}
#: The key of the kind that follows another action.
AFTER_ACTION = "after_action"
#: What ``when`` is if it is no list.
SingleModel = TimeModel | EventModel | AfterActionModel
KINDS: Mapping[str, type[SingleModel]] = {
    **TIME_KINDS,
    **EVENT_KINDS,
    AFTER_ACTION: AfterActionModel,
}


def is_below_minute(rule: TimeModel) -> bool:
    """Tell whether *rule* is due more often than once a minute."""
    match rule:
        case IntervalModel():
            every = parse_interval(rule.every)
            return not every.is_calendar and every.rest < timedelta(minutes=1)
        case CalendarModel():
            return len(CalendarExpression.parse(rule.calendar).seconds) > 1
        case _:
            return False


#: What other schedulers call our kinds.
_FOREIGN = {
    "cron": "cron_rule",
    "crontab": "cron_rule",
    "schedule": "cron_rule",
    "rule": "cron_rule",
    "date": "due_date",
    "at": "due_date",
    "once": "due_date",
    "interval": "every",
    "on_calendar": "calendar",
    "oncalendar": "calendar",
    "event": "on",
    "delay": "after",
    "follows": AFTER_ACTION,
    "depends_on": AFTER_ACTION,
    "needs": AFTER_ACTION,
    "business_day": "working_day",
    "workday": "working_day",
}

_RULE = '{"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"}'
_EXAMPLE = f'"when": {_RULE}'


def choose_kind(value: object, _: object, info: ValidationInfo) -> SingleModel:
    """
    Return *value* as the kind that its one key of a kind names.

    Only that kind reports problems with the rest, so that nobody reads why their cron
    rule is not a due date.
    """
    if isinstance(value, SingleModel):
        return value
    if not isinstance(value, dict):
        message = f"{show(value)} is not an object that says when."
        raise RuleError(message, f"Write, for instance, {_EXAMPLE}.")

    found = [key for key in value if key in KINDS]
    if AFTER_ACTION in found:  # whose "on" is no event
        found = [key for key in found if key != "on"]
    if not found:
        _refuse_unknown_kind(value, is_stored=info.context is None)
    if len(found) > 1:
        named = " and ".join(f"'{key}'" for key in found)
        hint = "Keep one of them."
        if not any(key in EVENT_KINDS for key in found):
            hint = "Keep one of them, or write a list with one object for each."
        msg = f"{named} cannot be in one object: each is a kind of its own."
        raise RuleError(msg, hint)
    kind = KINDS[found[0]]
    for key, say in _OTHERS.items():
        if key in value and key not in kind.model_fields:
            complaint = say(found[0])
            raise refuse_all("when", [refuse(complaint, loc=(key,), value=value[key])])

    made: SingleModel = kind.model_validate(
        value, context=info.context, by_alias=True, by_name=False
    )
    return made


def choose_time_kind(value: object, handler: object, info: ValidationInfo) -> TimeModel:
    """Return *value* as a time kind; no other can be in a list."""
    if isinstance(value, list | tuple):
        msg = f"{show(value)} is a list within a list."
        raise RuleError(msg, "Write one list of objects.")
    if isinstance(value, EventModel | AfterActionModel) or (
        isinstance(value, dict)
        and any(key in KINDS for key in value)
        and not any(key in TIME_KINDS for key in value)
    ):
        msg = f"{show(value)} is no rule of time; a list combines only those."
        raise RuleError(msg, "Post a separate action for it.")

    kind = choose_kind(value, handler, info)
    # An event has none of the keys of a time kind, and two kinds were refused.
    assert isinstance(kind, TimeModel)
    return kind


def choose_when(value: object, handler: object, info: ValidationInfo) -> WhenModel:
    """Return *value* as a ``when``: one kind, or 1 to 20 time kinds."""
    if not isinstance(value, list | tuple):
        return choose_kind(value, handler, info)
    if not 1 <= len(value) <= MOST_RULES:
        msg = f"The list has {len(value)} rules."
        raise RuleError(msg, f"Write 1 to {MOST_RULES} of them, such as [{_RULE}].")

    return _TIMES.validate_python(value, context=info.context)


def _say_time_of_day(kind: str) -> Complaint:
    """Return the complaint about the ``at`` of a kind of time."""
    message = f"'at' is the time of day that an event waits for; {kind!r} has its own."
    hint = {
        "every": "Write the time into 'anchor', such as 2026-01-01T09:00:00.",
        "due_date": "Write the time into 'due_date', such as 2026-12-01T09:00:00.",
    }.get(kind, f"Write the time into {kind!r}.")
    return Complaint(message, hint, about_key=True)


def _say_delay(kind: str) -> Complaint:
    """Return the complaint about the ``delay`` of a kind that has none."""
    if kind == "on":
        message = "'on' is the moment of the event itself; 'delay' is not a known key."
        hint = "For an event with a delay write 'after' instead of 'on'."
        return Complaint(message, hint, about_key=True)
    message = f"'delay' is not a known key: {kind!r} is due by the clock, not an event."
    return Complaint(message, "Leave it out.", about_key=True)


def _say_anchor(kind: str) -> Complaint:
    """Return the complaint about the ``anchor`` of a kind that has none."""
    message = f"'anchor' is where an interval begins, and {kind!r} is none."
    return Complaint(message, "Leave it out, or use 'starts_at'.", about_key=True)


#: Keys of some kinds, and what is said of them beside the key of another.
_OTHERS: Mapping[str, Callable[[str], Complaint]] = {
    "at": _say_time_of_day,
    "delay": _say_delay,
    "anchor": _say_anchor,
}


def _refuse_unknown_kind(value: dict[str, object], *, is_stored: bool) -> None:
    """Raise a complaint about each key that may have been meant to name a kind."""
    others = [key for key in value if key != "timezone"][:MOST_PROBLEMS]
    known = list(KINDS)
    if not others:
        msg = f"{show(value)} has no key that names a kind of time or event."
        raise RuleError(msg, f"Add one of: {', '.join(known)}.")
    if is_stored:
        # It was accepted once, by a program that knew its kind.
        msg = f"No key of {show(value)} is a kind of time or event of this version."
        raise RuleError(msg, "A newer one posted it: install that here, too.")

    told = _say_unknown_keys(others, value, known)
    details = [refuse(each, loc=(key,), value=value[key]) for key, each in told]
    raise refuse_all("when", details)


def _say_unknown_keys(
    keys: list[str], value: dict[str, object], known: list[str]
) -> Iterator[tuple[str, Complaint]]:
    """Yield what is said of which of *keys*, none of which names a kind."""
    meant = {key: _guess(key, value, known) for key in keys if key not in _OTHERS}
    likely = [kind for kind in meant.values() if kind]
    # What stands beside the key of a kind is not taken for one, if another is.
    for key in meant or keys:
        kind = meant.get(key) or _guess(key, value, known)
        if kind is None and len(likely) == 1 and likely[0] in KINDS:
            yield key, say_unknown_key(key, KINDS[likely[0]])
        else:
            said = f"{show(key)} is not a kind of time or event."
            hint = suggest(key, known, meant=kind)
            yield key, Complaint(said, hint, about_key=True, instead=kind)


def _guess(key: str, value: dict[str, object], known: list[str]) -> str | None:
    """Return the kind that *key* was probably meant to name; None: nobody can tell."""
    foreign = _FOREIGN.get(key.casefold())
    if foreign == "on" and "delay" in value:
        return "after"
    if key == "at" and "delay" in value:
        return None
    if foreign == "due_date" and is_time_of_day(value[key]):
        return None
    return foreign or find_near(key, known)


_TIMES: TypeAdapter[tuple[TimeModel, ...]] = TypeAdapter(
    tuple[Annotated[TimeModel, WrapValidator(choose_time_kind)], ...],
    config=ConfigDict(defer_build=True),
)


class CatchUpModel(DocumentModel):
    """
    What happens to occurrences older than the window, after a longer downtime.

    Args:
        runs: none: all are missed. latest: the last one runs, unless the window itself
            has one. all: up to 1,000.
        within: ISO 8601 duration; older ones are missed. Left out: of any age.
    """

    runs: Literal["none", "latest", "all"] = "none"
    within: DurationText | None = optional("P1D")


class TimingModel(DocumentModel):
    """
    What the tick needs to find the occurrences of a time-driven action.

    It is derived from the document when that is stored, with holiday calendars resolved
    to dates, and kept as one canonical JSON text. Actions with the same text share one
    parsed schedule.
    """

    when: tuple[Annotated[TimeModel, WrapValidator(choose_time_kind)], ...]
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    excluded: tuple[tuple[date, date], ...] = ()
    #: Weekdays that are excluded, too; Monday is 0.
    weekdays: tuple[int, ...] = ()
    instead: Instead | None = None
    jitter: str | None = None

    @property
    def is_below_minute(self) -> bool:
        """Whether a rule is due more often than once a minute."""
        return any(map(is_below_minute, self.when))
