"""What in an action is accepted, but may be a mistake; every face says it alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import TypedDict

from actions.posting.references import References, find_unknown
from actions.previews.either_day import find_either_days
from models.errors import Problem
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
        First, steps whose mails nobody gets; then rules that run on more days than
        one may think, and each name that the app does not have.
    """
    silent = [
        Problem("/recipients", f"nobody is named, so {step} reaches nobody.", "")
        for step in action.mails_to_nobody
    ]
    return [*silent, *find_either_days(action), *find_unknown(known, action)]


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
