"""The kinds of time rules: FINDERS names what parses each. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from actions.when.calendar import make_calendar_finder
from actions.when.cron import make_cron_finder
from actions.when.due_date import make_due_date_finder
from actions.when.interval import make_interval_finder
from actions.when.rule import Rule
from models.when import CalendarModel, CronModel, DueDateModel, IntervalModel

#: What makes a Rule of each time kind of models/when.py; a test compares the two.
FINDERS: dict[type[BaseModel], Callable[[Any], Rule]] = {
    CronModel: make_cron_finder,
    DueDateModel: make_due_date_finder,
    IntervalModel: make_interval_finder,
    CalendarModel: make_calendar_finder,
}
