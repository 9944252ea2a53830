"""What comes of posting actions: how they are stored, what runs, what is doubtful."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.lookup import get_action
from actions.posting.doubts import Doubts, find_doubts, find_doubts_of_all
from actions.posting.post import Posted, Posting, post_action, post_actions
from actions.posting.references import References, fetch_references
from actions.read_actions import fetch_rows, get_action_state
from actions.read_rules import find_next
from models.database.journal import rolled_back
from models.errors import Problem
from models.json_form import ASIDE
from models.requests.action_filter import ActionState
from models.scheduled_action import ScheduledActionModel

#: Next occurrences that are shown of one action; of each of many, the first.
NEXT_SHOWN = 10


@dataclass(frozen=True, slots=True)
class PostedEntry:
    """
    An action that was posted, or would be; times are aware UTC.

    Args:
        uid: None: it would be new.
        document_revision: The revision that its document has.
        created: Whether it is new.
        next: The next occurrences; none if it waits for events, or does not run.
        superseded: Occurrences that were due before this edit, and will not run.
    """

    uid: str | None
    name: str
    app: str
    revision: int
    document_revision: int
    state: ActionState
    created: bool
    next: list[datetime]
    superseded: list[datetime]


@dataclass(frozen=True, slots=True)
class PostedAction(PostedEntry):
    """The same, with what may be a mistake."""

    warnings: list[Problem]


@dataclass(frozen=True, slots=True)
class PostedActions:
    """Many; pointers of *warnings* begin with the place in the list."""

    items: list[PostedEntry]
    warnings: list[Problem]
    more_warnings: bool


@dataclass(frozen=True, slots=True)
class OneOutcome(PostedEntry):
    """
    What came of a post.

    Looking for doubts may take 30 ms, which no transaction should wait for: those who
    show them ask after the commit.
    """

    action: ScheduledActionModel = field(metadata=ASIDE)
    known: References = field(metadata=ASIDE)

    def judge(self) -> PostedAction:
        """Return what is shown of it, with what may be a mistake."""
        members = {each.name: getattr(self, each.name) for each in fields(PostedEntry)}
        return PostedAction(**members, warnings=find_doubts(self.known, self.action))


@dataclass(frozen=True, slots=True)
class ListOutcome:
    """What came of a post of many; see ``OneOutcome``."""

    entries: list[PostedEntry]
    actions: tuple[ScheduledActionModel, ...]
    known: References

    def find_doubts(self) -> Doubts:
        """Return the first of what may be a mistake."""
        return find_doubts_of_all(self.known, self.actions)

    def judge(self) -> PostedActions:
        """Return what is shown of it, with the first of what may be a mistake."""
        doubts = self.find_doubts()
        return PostedActions(self.entries, list(doubts.problems), doubts.may_be_more)


def post_with_outcome(
    connection: sa.Connection, app: str, action: ScheduledActionModel, how: Posting
) -> OneOutcome:
    """Post an action as ``post_action`` does, and return what comes of it."""
    return make_outcome(connection, post_action(connection, app, action, how), action)


def make_outcome(
    connection: sa.Connection, posted: Posted, action: ScheduledActionModel
) -> OneOutcome:
    """Return what came of posting *action*."""
    row = get_action(connection, posted.uid)
    known = fetch_references(connection, row.app, [action])
    members = _describe(posted, row, count=NEXT_SHOWN)
    return OneOutcome(**members, action=action, known=known)


def post_all_with_outcomes(
    connection: sa.Connection,
    app: str,
    actions: Sequence[ScheduledActionModel],
    how: Posting,
    *,
    dry_run: bool = False,
) -> ListOutcome:
    """
    Post actions as ``post_actions`` does, and return what comes of each.

    Args:
        dry_run: Whether to roll everything back in the end.
    """
    with rolled_back(connection) if dry_run else nullcontext():
        posted = post_actions(connection, app, actions, how)
        rows = fetch_rows(connection, [each.uid for each in posted])
    entries = [
        PostedEntry(**_describe(each, rows[each.uid], count=1, is_stored=not dry_run))
        for each in posted
    ]
    known = fetch_references(connection, app, actions)
    return ListOutcome(entries, tuple(actions), known)


def _describe(
    posted: Posted, row: sa.Row[Any], *, count: int, is_stored: bool = True
) -> dict[str, Any]:
    return {
        "uid": posted.uid if is_stored or not posted.created else None,
        "name": row.name,
        "app": row.app,
        "revision": posted.revision,
        # In a paused app, a new action has a second revision, of the same document.
        "document_revision": 1 if posted.created else posted.revision,
        "state": get_action_state(row),
        "created": posted.created,
        "next": find_next(row, count=count),
        "superseded": list(posted.superseded),
    }
