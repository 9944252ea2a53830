"""Why an action that the door has read is refused all the same, where it is stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.occurrences import Schedule, make_schedule
from actions.posting.naming import Taken
from actions.when.excluding import NO_DAYS
from models.errors import Problem
from models.fields.strict_model import show
from models.scheduled_action import ScheduledActionModel
from models.timing import timing_text
from models.when import DueDateModel, TimingModel

_RESOLUTION = timedelta.resolution


def find_passed_due_date(
    timing: TimingModel, schedule: Schedule, oldest: datetime
) -> Problem | None:
    """
    Return the problem of an action that would never run; None: it will, or may.

    Args:
        timing: Of the action.
        schedule: The same, parsed.
        oldest: Aware; what was due by then has passed.
    """
    if not schedule.has_dates_only:
        return None
    # An excepted day has not passed: that is a doubt, and no reason to refuse.
    whole = replace(schedule, excluded=NO_DAYS)
    if whole.next_from(oldest + _RESOLUTION) is not None:
        return None
    rule = timing.when[0]
    assert isinstance(rule, DueDateModel)  # all of them are, see above
    message = f"{rule.due_date} has passed, so the action would never run."
    hint = (
        "Write a future date. To run it now instead: post it with a future date and"
        ' "active": false, then minutehand actions run.'
    )
    return Problem("/when/due_date", message, hint)


def find_other_uid(action: ScheduledActionModel, uid: str) -> Problem | None:
    """Return the problem of an *action* that is to replace *uid*, but has another."""
    if action.uid in {None, uid}:
        return None
    message = f"{show(action.uid)} is another uid, and a uid never changes."
    return Problem("/uid", message, f"Write {show(uid)}, or leave it out.")


def find_refusals(
    connection: sa.Connection,
    app: str,
    action: ScheduledActionModel,
    timing: TimingModel | None,
    old: sa.Row[Any] | None,
    *,
    oldest: datetime,
) -> list[Problem]:
    """
    Return why a post of *action* would be refused now; nothing is locked or stored.

    Args:
        timing: As make_timing returns it.
        old: The row that it would replace. None: it would be new.
        oldest: Aware; a due date that was due by then has passed.

    Raises:
        NotFoundError: No such small app.
    """
    named = action
    found: list[Problem | None] = []
    if old is not None:
        found.append(find_other_uid(action, old.uid))
        named = action.model_copy(update={"uid": old.uid})
    taken = Taken(connection, app, [named], lock=False)
    found.append(taken.find_conflict(named, replace=old is not None))
    is_same = (
        old is not None and timing is not None and timing_text(timing) == old.timing
    )
    if timing is not None and not is_same:
        found.append(find_passed_due_date(timing, make_schedule(timing), oldest))
    return [each for each in found if each is not None]
