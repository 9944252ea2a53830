"""What in an action is accepted, but may be a mistake; every face says it alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from actions.posting.fleet import find_failing
from actions.posting.references import References, find_unknown
from actions.previews.either_day import find_either_days
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError, Problem
from models.operation import MAILING_STEPS
from models.scheduled_action import ScheduledActionModel

#: Of a list of actions, those after the action that reaches this many are not looked
#: for: a name that is compared with all users takes some 30 ms.
MOST_DOUBTS = 10


class WarningJson(TypedDict):
    """What is accepted, but may be a mistake, and where in the document it is."""

    pointer: str
    message: str
    hint: str


def make_warning(problem: Problem) -> WarningJson:
    """Return *problem* as the documented object."""
    return {
        "pointer": problem.pointer,
        "message": problem.message,
        "hint": problem.hint,
    }


def find_doubts(known: References, action: ScheduledActionModel) -> list[Problem]:
    """
    Return what in *action* is accepted, but may be a mistake.

    Args:
        known: The names that its small app has; see ``fetch_references``.

        action: As the door read it.

    Returns:
        First, how switches were read; steps whose mails nobody gets; then rules that
        run on more days than one may think, each name that the app does not have, and
        what must fail or wait as the workers are now.
    """
    return [
        *action.remarks,
        *_find_silent(action),
        *find_either_days(action),
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
