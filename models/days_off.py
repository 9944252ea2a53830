"""The days that an action excepts, as an admin writes them. Pure."""

from __future__ import annotations

from datetime import date
from itertools import islice
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from models.errors import RuleError
from models.fields.field_types import (
    WEEKDAYS,
    Day,
    Name,
    RuleText,
    drop_repeated,
    read_day,
    read_weekday,
)
from models.fields.strict_model import (
    MOST_PROBLEMS,
    DocumentModel,
    Most,
    find_near,
    show,
)

#: Working days of a month, at most: one of 31 days whose weeks have six of them.
MOST_WORKING_DAYS = 27

_LONGEST_MONTH = 31

#: Keys of the entries of ``except``, and one of each.
_KEYS = ("from", "until", "calendar", "weekdays")
_EXAMPLES = '"2026-12-25", {"from": "2026-12-24", "until": "2027-01-03"}'
_EXAMPLES += ', {"weekdays": ["Sat", "Sun"]}'
_WEEKEND = (5, 6)


class DateRangeModel(DocumentModel):
    """
    Whole local days in the zone of the rule, both ends included.

    Args:
        from_: The first day.
        until: The last day.
    """

    from_: Day = Field(alias="from", examples=["2026-12-24"])
    until: Day = Field(examples=["2027-01-03"])

    @field_validator("until")
    @classmethod
    def _check_order(cls, until: date, info: ValidationInfo) -> date:
        first = info.data.get("from_")
        if first is not None and until < first:
            msg = f"The end, '{until}', is before the start, '{first}'."
            raise RuleError(msg, f"Write '{first}' or a later day.")

        return until


class HolidaysModel(DocumentModel):
    """
    The days of a holiday calendar of the small app, by its name.

    Args:
        calendar: Name of a holiday calendar of the small app.
    """

    calendar: Name = Field(examples=["fr"])


class WeekdaysModel(DocumentModel):
    """
    The same days of every week, such as weekends.

    Args:
        weekdays: English names, whole or of three letters.
    """

    weekdays: Annotated[
        tuple[Annotated[RuleText, AfterValidator(read_weekday)], ...],
        Most(20),
        AfterValidator(drop_repeated),
    ] = Field(examples=[["Sat", "Sun"]])

    @property
    def numbers(self) -> tuple[int, ...]:
        """The weekdays as ``date.weekday`` counts them, from Monday, 0, on."""
        return tuple(sorted(map(WEEKDAYS.index, self.weekdays)))

    @field_validator("weekdays")
    @classmethod
    def _check_count(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            msg = "The list of weekdays is empty."
            raise RuleError(msg, 'Name some, such as ["Sat", "Sun"].')
        if len(names) == len(WEEKDAYS):
            msg = "All seven weekdays are named, which leaves no day to run."
            raise RuleError(msg, "Leave one out, or set 'active' to false.")

        return names


#: One entry of ``except``: a date, a range of dates, a holiday calendar, or weekdays.
ExceptModel = date | DateRangeModel | HolidaysModel | WeekdaysModel

#: Where an occurrence of an excepted day goes: to the nearest day before or after it.
Instead = Literal["before", "after"]


def choose_exception(value: object, _: object) -> ExceptModel:
    """Return *value* as an entry of ``except``, whose shape tells its type."""
    if isinstance(value, DateRangeModel | HolidaysModel | WeekdaysModel):
        return value
    if not isinstance(value, dict):
        return _read_excepted_day(value)

    keys = [*islice(value, MOST_PROBLEMS)]
    if value and not any(find_near(key, _KEYS) for key in keys):
        msg = f"{show(value)} names no days."
        raise RuleError(msg, f"Write, for instance, {_EXAMPLES}.")
    if any(find_near(key, ("weekdays",)) for key in keys):
        return WeekdaysModel.model_validate(value)
    # Also if "calendar" is misspelled, so that the hint says how to spell it.
    if "from" not in value and any(find_near(key, ("calendar",)) for key in keys):
        return HolidaysModel.model_validate(value)

    return DateRangeModel.model_validate(value, by_alias=True, by_name=False)


def _read_excepted_day(value: object) -> date:
    """Return the day that *value* names; say how to write a weekday."""
    try:
        return read_day(value)
    except RuleError as error:
        try:
            name = read_weekday(str(value))
        except RuleError:
            raise error from None
        hint = f'Write {{"weekdays": ["{name}"]}}.'
        raise RuleError(error.message, hint) from None


def choose_days(value: object, _: object) -> date | DateRangeModel:
    """Return *value* as an entry of a holiday calendar: a day or a range."""
    if isinstance(value, DateRangeModel):
        return value
    if not isinstance(value, dict):
        return read_day(value)

    return DateRangeModel.model_validate(value, by_alias=True, by_name=False)


def get_free_weekdays(excepted: tuple[int, ...]) -> tuple[int, ...]:
    """Return the weekdays without work: Saturday and Sunday, unless some are named."""
    return excepted or _WEEKEND


def count_working_days(excepted: tuple[int, ...]) -> int:
    """Return the most working days of a month, given the weekdays *excepted*."""
    free = get_free_weekdays(excepted)
    week = range(len(WEEKDAYS))
    return max(
        sum((first + day) % len(WEEKDAYS) not in free for day in range(_LONGEST_MONTH))
        for first in week
    )
