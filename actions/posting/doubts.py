"""What in an action is accepted, but may be a mistake; every face says it alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from actions.occurrences import make_schedule
from actions.posting.references import (
    References,
    find_failing,
    find_unknown,
    get_wanted,
)
from actions.previews.preview_notes import find_either_days
from actions.when.excluding import NO_DAYS
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError, Problem
from models.operation import MAILING_STEPS
from models.scheduled_action import ScheduledActionModel
from models.timing import make_timing
from models.when import CalendarModel, WorkingDayModel

#: Of a list of actions, those after the action that reaches this many are not looked
#: for: a name that is compared with all users takes some 30 ms.
MOST_DOUBTS = 10


def find_doubts(known: References, action: ScheduledActionModel) -> list[Problem]:
    """
    Return what in *action* is accepted, but may be a mistake.

    Args:
        known: The names that its small app has; see ``fetch_references``.

    Returns:
        First, steps whose mails nobody gets; days that leave none to run, or are
        counted; then rules that run on more days than one may think, retries that no
        task has, each name that the app does not have, and what must fail or wait as
        the workers are now.
    """
    return [
        *_find_silent(action),
        *_find_unreached(known, action),
        *_find_never_due(known, action),
        *_find_uncounted(known, action),
        *find_either_days(action),
        *_find_vain_retries(action),
        *find_unknown(known, action),
        *find_failing(known.fleet, action),
    ]


def find_silent_steps(document: Mapping[str, Any]) -> list[Problem]:
    """
    Return the steps of a stored action whose mails nobody gets.

    Args:
        document: As it is stored; one that cannot be read any more has none.
    """
    who = document.get("recipients") or {}
    if who.get("users") or who.get("groups"):
        return []
    if MAILING_STEPS.isdisjoint(document.get("operations", ())):
        return []
    try:
        return _find_silent(read_action_object(document))
    except InvalidDocumentError:
        return []


def _find_silent(action: ScheduledActionModel) -> list[Problem]:
    return [
        Problem("/recipients", f"nobody is named, so {step} reaches nobody.", "")
        for step in action.mails_to_nobody
    ]


def _find_unreached(
    known: References, action: ScheduledActionModel
) -> Iterator[Problem]:
    """Yield a problem if the filter of *action* leaves out all whom it names."""
    wanted = get_wanted(action)
    if wanted is None or wanted not in known.unreached:
        return
    steps = [name for name in action.operations.step_names if name in MAILING_STEPS]
    reaches = f"{' and '.join(steps)} would reach nobody now."
    if wanted.on_event:
        reaches = "no event would make it run now."
    who = wanted.who
    hint = "See who is left out (minutehand mails preview ACTION)."
    if not (who.only_inactive_users or who.only_inactivated_users):
        hint = (
            "Who is disabled, expired or was never activated is left out, unless it"
            " includes them."
        )
    message = f"it leaves out each user whom it names, so {reaches}"
    yield Problem("/recipients", message, hint)


def _find_never_due(
    known: References, action: ScheduledActionModel
) -> Iterator[Problem]:
    """Yield a problem if *action* is over, or excepts each day that would be left."""
    if action.ends_at is not None and action.ends_at <= known.now:
        yield Problem(
            "/ends_at", "it has passed, so the action is never due again.", ""
        )
        return
    if not (action.except_ or _depends_on_days(action)):
        return
    try:
        timing = make_timing(action, holidays=known.holidays, created_at=known.now)
    except InvalidDocumentError:
        return  # a calendar that there is not: a post is refused for it
    if timing is None:
        return
    schedule = make_schedule(timing)
    if schedule.next_from(known.now) is not None:
        return
    if replace(schedule, excluded=NO_DAYS).next_from(known.now) is None:
        if not schedule.has_dates_only:  # a post is refused if they have passed
            message = "no date is left within its bounds, so it is never due again."
            yield Problem("/when", message, "")
        return
    message = "each day on which it would be due is excepted, so it never runs."
    hint = "Except fewer days."
    if action.instead is None:
        hint = 'Except fewer days, or move what falls on them: "instead": "after".'
    yield Problem("/except", message, hint)


def _depends_on_days(action: ScheduledActionModel) -> bool:
    """
    Tell whether *action* counts working days, or has a last occurrence.

    Dates are looked at by the post.
    """
    return action.ends_at is not None or any(
        isinstance(rule, CalendarModel | WorkingDayModel)
        for _, rule in action.place_rules()
    )


def _find_uncounted(
    known: References, action: ScheduledActionModel
) -> Iterator[Problem]:
    """Yield a problem if *action* counts working days, holidays of its app included."""
    if not known.holidays or action.except_:
        return
    if any(isinstance(rule, WorkingDayModel) for _, rule in action.place_rules()):
        named = [{"calendar": name} for name in sorted(known.holidays)]
        message = "working days are counted, and holidays of the small app among them."
        yield Problem("/when", message, f'Write "except": {json.dumps(named)}.')


def _find_vain_retries(action: ScheduledActionModel) -> Iterator[Problem]:
    """Yield a problem if *action* seems to ask for retries of a task of their own."""
    task = action.operations.run_task
    if action.retries and task is not None and task.wait is not False:
        message = (
            "they are for what Minutehand does: a task that was sent and fails ends the"
            " run."
        )
        hint = "Let Celery retry the task itself: autoretry_for, max_retries."
        yield Problem("/retries", message, hint)


@dataclass(frozen=True, slots=True)
class Doubts:
    """
    The first doubts about the actions of a list.

    Args:
        problems: Pointers begin with the number of the action, from 0.
        may_be_more: Whether actions were left that nobody has looked at.
    """

    problems: tuple[Problem, ...]
    may_be_more: bool


def find_doubts_of_all(
    known: References, actions: Iterable[ScheduledActionModel]
) -> Doubts:
    """Return the doubts about the first of *actions*, until there are MOST_DOUBTS."""
    found: list[Problem] = []
    for index, action in enumerate(actions):
        if len(found) >= MOST_DOUBTS:
            return Doubts(tuple(found), may_be_more=True)
        found += [
            Problem(f"/{index}{each.pointer}", each.message, each.hint)
            for each in find_doubts(known, action)
        ]
    return Doubts(tuple(found), may_be_more=False)
