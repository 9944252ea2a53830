"""The scheduled action that an admin posts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)

from models.back_off import MOST_RETRIES, parse_retry_after
from models.days_off import (
    DateRangeModel,
    ExceptModel,
    Instead,
    WeekdaysModel,
    choose_exception,
    count_working_days,
)
from models.errors import RuleError
from models.fields.addresses import check_ping
from models.fields.duration import Duration
from models.fields.field_types import (
    WEEKDAYS,
    Name,
    RuleText,
    Uid,
    parsed_by,
    read_instant,
)
from models.fields.instants import parse_due_date
from models.fields.placeholders import OF_EVENTS
from models.fields.strict_model import (
    Complaint,
    DocumentModel,
    Most,
    get_keys,
    optional,
    refuse,
    refuse_all,
    show,
)
from models.fields.zone import load_zone
from models.operation import (
    MAILING_STEPS,
    RUN_TASK,
    STEP_MODELS,
    ConditionModel,
    OperationModel,
    RecipientFilterModel,
)
from models.operation_state import Overlap, Queue
from models.run_task import CELERY_KEYS, ElapsedText
from models.when import (
    KINDS,
    AfterActionModel,
    CatchUpModel,
    EventModel,
    IntervalModel,
    TimeModel,
    WhenModel,
    WorkingDayModel,
    choose_when,
    is_below_minute,
)

#: A spread over more than a day would move occurrences to another day.
LONGEST_JITTER = timedelta(hours=24)

#: Exceptions of one action; for more, use a holiday calendar.
MOST_EXCEPTIONS = 1000

#: The most failures in a row that pause an action.
MOST_FAILURES = 100


#: Keys above those of a step: operations, and its own.
_DEPTH_OF_STEP = 2


def parse_jitter(text: str) -> Duration:
    """
    Read whole minutes, at most a day.

    Raises:
        RuleError: As ``Duration.parse``, or if it is something else.
    """
    jitter = Duration.parse(text)
    if jitter.months or jitter.elapsed % timedelta(minutes=1) or jitter.is_zero:
        msg = f"{show(text)} is not a whole number of minutes above zero."
        raise RuleError(msg, "Write whole minutes or hours, such as PT5M.")
    if jitter.elapsed > LONGEST_JITTER:
        raise RuleError(f"{show(text)} is more than a day.", "Write at most PT24H.")
    return jitter


class ExpectModel(DocumentModel):
    """
    By when each run should have ended, and how long it should take.

    Args:
        within: ISO 8601 duration from its time to the end of a run.
        takes: ISO 8601 duration from the beginning to the end of a run.
    """

    within: ElapsedText | None = optional("PT30M")
    takes: ElapsedText | None = optional("PT10M")

    @model_validator(mode="after")
    def _refuse_nothing(self) -> Self:
        if self.within is None and self.takes is None:
            msg = "Nothing is expected."
            raise RuleError(msg, "Write 'within' or 'takes', or leave 'expect' out.")
        return self


class ScheduledActionModel(DocumentModel):
    """
    What to do (operations), when, and for whom (recipients).

    Bounds are aware UTC once they are read. None is what was left out.

    Args:
        name: For people; unique among the actions of its small app.
        uid: Unique in the installation. Left out: one is made.
        active: Whether it runs at all.
        operations: The steps, which run in a fixed order.
        if_: When the steps after refresh run. Left out: always.
        when: A rule, or up to 20 rules of time, each with its own occurrences.
        recipients: Who gets the mails; whose events count.
        starts_at: No occurrence before it. Local time has the zone of the rule.
        ends_at: No occurrence at or after it.
        except_: Local days without occurrences: dates, holiday calendars, weekdays.
        instead: Moves occurrences of these days to the nearest other day.
        jitter: Spreads the sending over so much time, whole minutes, at most P1D.
        catch_up: What happens to occurrences missed during a longer downtime.
        overlap: What happens to an occurrence while the run before it is live.
        retries: Attempts after the first.
        retry_after: ISO 8601 duration before the second attempt, at most PT24H; then
            twice that.
        expect: What is told of if it is not so. Left out: nothing is.
        rest_after: Failures in a row that pause it. Left out: it goes on.
        ping: Address of a monitor (Healthchecks, Sentry) that hears of its runs.
    """

    name: Name = Field(examples=["weekly update"])
    uid: Uid | None = optional("weekly-update")
    active: bool = True
    operations: OperationModel = Field(
        examples=[{"send_email": {"template": "inactive"}}]
    )
    if_: ConditionModel | None = optional({"refreshed": True}, alias="if")
    when: Annotated[WhenModel, WrapValidator(choose_when)] = Field(
        examples=[{"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"}]
    )
    recipients: RecipientFilterModel | None = optional({"groups": ["all"]})
    starts_at: datetime | None = optional("2026-12-01T00:00:00Z")
    ends_at: datetime | None = optional("2027-12-01T00:00:00Z")
    except_: Annotated[
        tuple[Annotated[ExceptModel, WrapValidator(choose_exception)], ...],
        Most(MOST_EXCEPTIONS),
    ] = Field(default=(), alias="except", examples=[["2026-12-25"]])
    instead: Instead | None = optional("before")
    jitter: Annotated[RuleText, parsed_by(parse_jitter)] | None = optional("PT5M")
    catch_up: CatchUpModel = Field(
        default=CatchUpModel(), examples=[{"runs": "latest", "within": "P1D"}]
    )
    overlap: Overlap | None = optional("skip")
    retries: int | None = optional(5, ge=0, le=MOST_RETRIES)
    retry_after: Annotated[RuleText, parsed_by(parse_retry_after)] | None = optional(
        "PT1M"
    )
    expect: ExpectModel | None = optional({"within": "PT30M", "takes": "PT10M"})
    rest_after: int | None = optional(3, ge=1, le=MOST_FAILURES)
    ping: Annotated[str, Field(max_length=2000), AfterValidator(check_ping)] | None = (
        optional("https://hc-ping.com/your-uuid")
    )

    @classmethod
    def say_place(cls, path: Sequence[str | int]) -> str:
        """Return which part of an action has the key; "" if it is this one, or none."""
        *parts, key = path
        if list(parts) == ["operations", "run_task"] and key in CELERY_KEYS:
            return CELERY_KEYS[str(key)]
        if key == "name":
            return ""  # of whatever it stands in
        if parts and key in get_keys(cls):
            return f"It belongs beside '{parts[0]}', at the top of the action."
        for place, keys in _find_parts():
            # what one step lacks, another may have for something else
            if key in keys and min(len(place), len(parts)) < _DEPTH_OF_STEP:
                is_there = list(place) == parts[: len(place)]
                return "" if is_there else f"It belongs in '{'.'.join(place)}'."
        return ""

    @property
    def mails_to_nobody(self) -> tuple[str, ...]:
        """The steps that send mails, if *recipients* names nobody; otherwise empty."""
        who = self.recipients
        if isinstance(self.when, EventModel) or (who and (who.users or who.groups)):
            return ()
        steps = self.operations.step_names
        return tuple(name for name in steps if name in MAILING_STEPS)

    @property
    def excepted_weekdays(self) -> tuple[int, ...]:
        """The weekdays that *except* names; Monday is 0."""
        return _join_weekdays(self.except_)

    @property
    def is_below_minute(self) -> bool:
        """Whether it is due more often than once a minute, and looked at between."""
        is_sent_by_leader = self.operations.queue is Queue.TASKS
        return is_sent_by_leader and any(
            is_below_minute(rule) for _, rule in self.place_rules()
        )

    def place_rules(self) -> Iterator[tuple[tuple[str | int, ...], TimeModel]]:
        """Yield the rules of time, each with where it is."""
        if isinstance(self.when, tuple):
            yield from ((("when", index), rule) for index, rule in enumerate(self.when))
        elif isinstance(self.when, TimeModel):
            yield ("when",), self.when

    @field_validator("if_")
    @classmethod
    def _refuse_vain_condition(
        cls, condition: ConditionModel | None, info: ValidationInfo
    ) -> ConditionModel | None:
        """Refuse a condition that nothing can meet, or that nothing waits for."""
        asked = info.data.get("operations")
        if condition is None or asked is None:
            return condition
        if asked.refresh is None:
            msg = "Nothing is refreshed, so nothing can be new."
            raise RuleError(msg, "Ask for 'refresh' in 'operations', or leave it out.")
        if asked.step_names == ("refresh",):
            msg = "No step follows refresh, so there is nothing to leave out."
            raise RuleError(msg, "Add one, such as 'publish', or leave 'if' out.")

        return condition

    @field_validator("when")
    @classmethod
    def _check_placeholders(cls, when: WhenModel, info: ValidationInfo) -> WhenModel:
        """Refuse a placeholder for a user or an event where there never is one."""
        asked = info.data.get("operations")
        if info.context is None or asked is None or isinstance(when, EventModel):
            return when
        task = asked.run_task
        names = () if task is None else sorted(task.placeholders)
        vain = [name for name in names if name.startswith(OF_EVENTS)]
        if vain:
            msg = f"run_task has '{{{{ {vain[0]} }}}}', but no user triggers this rule."
            hint = 'Leave it out, or write a rule that follows an event: {"on": ...}.'
            raise RuleError(msg, hint)

        return when

    @field_validator("starts_at", "ends_at", mode="before")
    @classmethod
    def _read_bound(cls, value: Any, info: ValidationInfo) -> datetime | None:
        """Read a bound in the zone of ``when`` unless it has an offset."""
        if value is None:
            return None
        if not isinstance(value, str):
            return read_instant(value)

        zones = _zones_of(info.data.get("when"))
        if len(zones) > 1:
            # Refuses a text without an offset, which would mean several instants.
            parse_due_date(value, None)
        return parse_due_date(value, load_zone(zones[0]))

    @field_validator("ends_at")
    @classmethod
    def _check_order(
        cls, ends_at: datetime | None, info: ValidationInfo
    ) -> datetime | None:
        starts_at = info.data.get("starts_at")
        if ends_at is not None and starts_at is not None and ends_at <= starts_at:
            msg = f"The end, '{ends_at}', is not after the start, '{starts_at}'."
            raise RuleError(msg, "Write a later end, or leave out one of the two.")

        return ends_at

    @field_validator("except_")
    @classmethod
    def _refuse_except_of_event(
        cls, entries: tuple[ExceptModel, ...], info: ValidationInfo
    ) -> tuple[ExceptModel, ...]:
        when = info.data.get("when")
        if entries and isinstance(when, EventModel | AfterActionModel):
            what = "an event" if isinstance(when, EventModel) else "another one"
            msg = f"'except' is for rules of time; this action follows {what}."
            raise RuleError(msg, "Leave 'except' out, or use starts_at and ends_at.")
        if len(_join_weekdays(entries)) == len(WEEKDAYS):
            msg = "All seven weekdays are named, which leaves no day to run."
            raise RuleError(msg, "Leave one out, or set 'active' to false.")

        return entries

    @field_validator("instead")
    @classmethod
    def _refuse_instead_alone(
        cls, instead: Instead | None, info: ValidationInfo
    ) -> Instead | None:
        # An "except" that was refused is not in the data, and is reported itself.
        if instead is not None and info.data.get("except_") == ():
            msg = f"{show(instead)} moves nothing: no day is excepted."
            raise RuleError(msg, "Add 'except' with the days, or leave 'instead' out.")

        return instead

    @model_validator(mode="after")
    def _refuse_interval_below_minute(self) -> Self:
        """Refuse seconds where a worker would have to do more than send a task."""
        if self.operations.queue is Queue.TASKS:
            return self
        for place, rule in self.place_rules():
            if isinstance(rule, IntervalModel) and is_below_minute(rule):
                said = f"{show(rule.every)} is shorter than a minute."
                hint = f"Write PT1M or more; less is for {RUN_TASK} as the only step."
                loc = (*place, "every")
                problem = refuse(Complaint(said, hint), loc=loc, value=rule.every)
                raise refuse_all("when", [problem])

        return self

    @model_validator(mode="after")
    def _refuse_impossible_working_day(self) -> Self:
        """Refuse the 25th working day, which no month has if weekends are free."""
        most = count_working_days(self.excepted_weekdays)
        for place, rule in self.place_rules():
            if isinstance(rule, WorkingDayModel) and abs(rule.working_day) > most:
                said = f"No month has {abs(rule.working_day)} working days."
                hint = f"Write at most {most}, or the last: -1."
                complaint = Complaint(said, hint)
                loc = (*place, "working_day")
                raise refuse_all(
                    "when", [refuse(complaint, loc=loc, value=rule.working_day)]
                )

        return self

    @field_validator("retry_after")
    @classmethod
    def _refuse_pause_before_nothing(
        cls, text: str | None, info: ValidationInfo
    ) -> str | None:
        if text is not None and info.data.get("retries", "refused") == 0:
            msg = f"{show(text)} has no effect: nothing is tried again."
            raise RuleError(msg, "Leave 'retry_after' out, or write more 'retries'.")

        return text

    @field_validator("jitter")
    @classmethod
    def _check_jitter(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is None:
            return None
        if isinstance(info.data.get("when"), EventModel):
            msg = f"{show(text)} has no effect: users spread their events themselves."
            raise RuleError(msg, "Leave 'jitter' out, or write a longer 'delay'.")
        if isinstance(info.data.get("when"), AfterActionModel):
            msg = f"{show(text)} has no effect: the other action has its own."
            raise RuleError(msg, "Leave 'jitter' out, or write a 'delay'.")

        return text


def _find_parts() -> Iterator[tuple[tuple[str, ...], Collection[str]]]:
    """Yield the parts of an action, each with the keys that it has."""
    yield ("when",), {name for kind in KINDS.values() for name in get_keys(kind)}
    yield ("operations",), get_keys(OperationModel)
    yield ("if",), get_keys(ConditionModel)
    yield ("recipients",), get_keys(RecipientFilterModel)
    yield ("catch_up",), get_keys(CatchUpModel)
    yield ("expect",), get_keys(ExpectModel)
    yield ("except",), {"weekdays", *get_keys(DateRangeModel)}
    for step, model in STEP_MODELS.items():
        yield ("operations", step), get_keys(model)


def _join_weekdays(entries: Iterable[ExceptModel]) -> tuple[int, ...]:
    named = (each.numbers for each in entries if isinstance(each, WeekdaysModel))
    return tuple(sorted({number for numbers in named for number in numbers}))


def _zones_of(when: WhenModel | None) -> tuple[str, ...]:
    """Return the zones of *when*; UTC if it was refused, which is reported itself."""
    if when is None:
        return ("UTC",)

    rules = when if isinstance(when, tuple) else (when,)
    return tuple(dict.fromkeys(rule.timezone for rule in rules))
