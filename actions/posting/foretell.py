"""
What follows from a post: when the action runs, and what in it may be a mistake.

Each function does the post itself, so a refusal is the same with and without a dry run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import get_action
from actions.posting.doubts import (
    Doubts,
    WarningJson,
    find_doubts,
    find_doubts_of_all,
    make_warning,
)
from actions.posting.post import Posted, post_action, post_actions
from actions.posting.references import References, fetch_references
from actions.read_actions import ActionState, fetch_rows, get_action_state
from actions.read_rules import find_next
from models.database.journal import rolled_back
from models.errors import Problem
from models.scheduled_action import ScheduledActionModel


class PostedEntryJson(TypedDict):
    """
    One action of a post, and the action after it.

    ``uid`` is null if nothing was stored and the action would be new; ``superseded``
    are occurrences that were due under the old rule and will not run.
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


class PostedJson(PostedEntryJson):
    """The same of a post of one action, with what in it may be a mistake."""

    warnings: list[WarningJson]


class PostedListJson(TypedDict):
    """
    What became of each action of a list, in its order.

    ``warnings``: the first of all that may be a mistake; their pointers begin with the
    number of the action, from 0. ``more_warnings``: there may be more of them.
    """

    items: list[PostedEntryJson]
    warnings: list[WarningJson]
    more_warnings: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    One action of a post, and the action after it.

    Args:
        posted: The result of the post.
        row: The action's row of ``scheduled_actions``.
        is_stored: False: the post was rolled back, so a new action has no uid yet.
    """

    posted: Posted
    row: sa.Row[Any]
    is_stored: bool = True

    @property
    def document_revision(self) -> int:
        """The revision that has the document: a new action may be paused after it."""
        return 1 if self.posted.created else self.posted.revision

    @property
    def state(self) -> ActionState:
        """The state of the action: "active", or why it does not run, in a word."""
        return get_action_state(self.row)

    def find_next(self, *, count: int) -> list[datetime]:
        """Return the next *count* occurrences, aware UTC."""
        return find_next(self.row, count=count)

    def as_json(self, *, count: int) -> PostedEntryJson:
        """Return the documented object, with at most *count* occurrences."""
        has_uid = self.is_stored or not self.posted.created
        return {
            "uid": self.posted.uid if has_uid else None,
            "name": self.row.name,
            "app": self.row.app,
            "revision": self.posted.revision,
            "document_revision": self.document_revision,
            "state": self.state,
            "created": self.posted.created,
            "next": self.find_next(count=count),
            "superseded": list(self.posted.superseded),
        }


@dataclass(frozen=True, slots=True)
class OneOutcome(Outcome):
    """
    A post of one action.

    Args:
        action: What was posted.
        known: The names that its small app had then.
    """

    # Looking for doubts may take 30 ms, which no transaction should wait for: those who
    # show them ask after the commit.
    action: ScheduledActionModel = field(kw_only=True)
    known: References = field(kw_only=True)

    def find_doubts(self) -> list[Problem]:
        """Return what in the action may be a mistake, though it was accepted."""
        return find_doubts(self.known, self.action)

    def as_json_with_warnings(self, *, count: int) -> PostedJson:
        """Return the documented object, with at most *count* occurrences."""
        return {
            **self.as_json(count=count),
            "warnings": [make_warning(each) for each in self.find_doubts()],
        }


@dataclass(frozen=True, slots=True)
class ListOutcome:
    """
    A post of several actions.

    Args:
        outcomes: Of each action, in their order.
        actions: What was posted.
        known: The names that their small app had then.
    """

    outcomes: tuple[Outcome, ...]
    actions: tuple[ScheduledActionModel, ...]
    known: References

    def find_doubts(self) -> Doubts:
        """Return the first of what may be a mistake, though it was accepted."""
        return find_doubts_of_all(self.known, self.actions)

    def as_json(self, *, count: int) -> PostedListJson:
        """Return the documented object, with at most *count* occurrences of each."""
        doubts = self.find_doubts()
        return {
            "items": [each.as_json(count=count) for each in self.outcomes],
            "warnings": [make_warning(each) for each in doubts.problems],
            "more_warnings": doubts.may_be_more,
        }


def post_with_outcome(  # noqa: PLR0913 - those of post_action
    connection: sa.Connection,
    app: str,
    action: ScheduledActionModel,
    *,
    replace: bool,
    lookback: timedelta,
    by: str | None,
    note: str | None = None,
) -> OneOutcome:
    """Store *action* as ``post_action`` does, and return the outcome."""
    posted = post_action(
        connection, app, action, replace=replace, lookback=lookback, by=by, note=note
    )
    return make_outcome(connection, posted, action)


def make_outcome(
    connection: sa.Connection, posted: Posted, action: ScheduledActionModel
) -> OneOutcome:
    """
    Return the outcome of a post of one action.

    Args:
        connection: In the transaction of the post.
        posted: Its result.
        action: What was posted.
    """
    row = get_action(connection, posted.uid)
    known = fetch_references(connection, row.app, [action])
    return OneOutcome(posted, row, action=action, known=known)


def post_all_with_outcomes(  # noqa: PLR0913 - those of post_actions, and a dry run
    connection: sa.Connection,
    app: str,
    actions: Sequence[ScheduledActionModel],
    *,
    replace: bool,
    lookback: timedelta,
    by: str | None,
    note: str | None = None,
    dry_run: bool = False,
) -> ListOutcome:
    """
    Store all of *actions* as ``post_actions`` does, and return the outcome of each.

    Args:
        replace: As for ``post_actions``.
        lookback: As for ``post_actions``.
        by: As for ``post_actions``.
        note: As for ``post_actions``.
        dry_run: Whether to roll the post back in the end.
    """
    with rolled_back(connection) if dry_run else nullcontext():
        posted = post_actions(
            connection,
            app,
            actions,
            replace=replace,
            lookback=lookback,
            by=by,
            note=note,
        )
        rows = fetch_rows(connection, [each.uid for each in posted])
    outcomes = (Outcome(each, rows[each.uid], not dry_run) for each in posted)
    known = fetch_references(connection, app, actions)
    return ListOutcome(tuple(outcomes), tuple(actions), known)
