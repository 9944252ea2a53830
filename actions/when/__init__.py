"""The kinds of time rules; RULES has the function that parses each. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from actions.when.calendar import make_calendar_rule
from actions.when.cron import make_cron_rule
from actions.when.due_date import make_due_date_rule
from actions.when.interval import make_interval_rule
from actions.when.rule import Rule
from actions.when.working_day import make_working_day_rule
from models.when import (
    CalendarModel,
    CronModel,
    DueDateModel,
    IntervalModel,
    WorkingDayModel,
)

#: Makes the Rule of each time kind in models/when.py; a test checks for missing ones.
RULES: dict[type[BaseModel], Callable[[Any], Rule]] = {
    CronModel: make_cron_rule,
    DueDateModel: make_due_date_rule,
    IntervalModel: make_interval_rule,
    CalendarModel: make_calendar_rule,
    WorkingDayModel: make_working_day_rule,
}
