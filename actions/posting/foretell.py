"""
What follows from a post: what it changes, when it runs, what may be a mistake.

Each function does the post itself, so a refusal is the same with and without a dry run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import find_action
from actions.occurrences import Schedule, make_schedule, parse_timing
from actions.posting.changes import (
    COMPARED,
    Changes,
    ChangesJson,
    compare_schedules,
)
from actions.posting.post import Posted, fetch_holidays, post_action, post_actions
from actions.posting.references import References, find_unknown
from actions.read_actions import ActionState, fetch_rows, find_next, get_action_state
from models.database.engine import read_clock
from models.database.journal import rolled_back
from models.errors import NotFoundError, Problem, RuleError
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing


class PostedJson(TypedDict):
    """
    A post, and the action after it.

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    A post, and the action after it.

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

    def as_json(self, *, count: int) -> PostedJson:
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


class ForetoldJson(ChangesJson):
    """What a post would do, and how the occurrences of the near future would change."""

    uid: str | None
    revision: int
    superseded: list[datetime]


@dataclass(frozen=True, slots=True)
class Difference:
    """
    What a post would do, and how the occurrences of the near future would change.

    Args:
        posted: The result, as if the action had been stored.

        changes: Of the occurrences from now on, for ``COMPARED``.
    """

    posted: Posted
    changes: Changes

    def as_json(self) -> ForetoldJson:
        """Return the documented object; keys are only added."""
        return {
            "uid": None if self.posted.created else self.posted.uid,
            "revision": self.posted.revision,
            "superseded": list(self.posted.superseded),
            **self.changes.as_json(),
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
) -> Outcome:
    """Store *action* as ``post_action`` does, and return the outcome."""
    posted = post_action(
        connection, app, action, replace=replace, lookback=lookback, by=by, note=note
    )
    return Outcome(posted, find_action(connection, posted.uid))


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
) -> list[Outcome]:
    """
    Store all of *actions* as ``post_actions`` does, and return the outcome of each.

    Args:
        connection: In a transaction of its own.

        app: Uid of a small app.

        actions: As the door read them.

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
    return [Outcome(each, rows[each.uid], is_stored=not dry_run) for each in posted]


def foretell_post(
    connection: sa.Connection,
    app: str,
    action: ScheduledActionModel,
    *,
    replace: bool,
    lookback: timedelta,
) -> Difference:
    """
    Return what storing *action* would change, without storing it.

    Args:
        connection: In a transaction of its own.

        app: Uid of a small app.

        action: As the door read it.

        replace: As for ``post_action``.

        lookback: As for ``post_action``.

    Raises:
        NotFoundError, ConflictError, InvalidDocumentError: As ``post_action``.
    """
    old = _find_old(connection, app, action)
    now = read_clock(connection)
    holidays = fetch_holidays(connection, app)
    with rolled_back(connection):
        posted = post_action(
            connection, app, action, replace=replace, lookback=lookback
        )
    action = action.model_copy(update={"uid": posted.uid})
    return Difference(posted, foretell_edit(old, action, now=now, holidays=holidays))


def foretell_edit(
    old: sa.Row[Any] | None,
    action: ScheduledActionModel,
    *,
    now: datetime,
    holidays: Mapping[str, Sequence[DayRange]],
) -> Changes:
    """
    Return how the runs of the near future would change if *action* were stored.

    Args:
        old: The row that it would replace. None: it is new.

        action: As the door read it, with its uid.

        now: Aware UTC; what is compared begins here and lasts for COMPARED.

        holidays: The days of each holiday calendar of the app.
    """
    created_at = now if old is None else old.created_at
    timing = make_timing(action, created_at=created_at, holidays=holidays)
    new = None if timing is None or not action.active else make_schedule(timing)
    return compare_schedules(
        _read_schedule(old), new, action.uid or "", start=now, end=now + COMPARED
    )


def find_doubts(known: References, action: ScheduledActionModel) -> list[Problem]:
    """
    Return what in *action* is accepted, but may be a mistake.

    Args:
        known: The names that its small app has; see ``fetch_references``.

        action: As the door read it.

    Returns:
        First, steps whose mails nobody gets; then each name that the app does not have.
    """
    silent = [
        Problem("/recipients", f"nobody is named, so {step} reaches nobody.", "")
        for step in action.mails_to_nobody
    ]
    return [*silent, *find_unknown(known, action)]


def _find_old(
    connection: sa.Connection, app: str, action: ScheduledActionModel
) -> sa.Row[Any] | None:
    try:
        return find_action(connection, action.uid or action.name, app=app)
    except NotFoundError:
        return None


def _read_schedule(row: sa.Row[Any] | None) -> Schedule | None:
    """Return the schedule of *row*, as if no pause were; None: it has none."""
    runs = {ActionState.ACTIVE, ActionState.PAUSED}
    if row is None or row.timing is None or get_action_state(row) not in runs:
        return None
    try:
        return parse_timing(row.timing) if row.active else None
    except RuleError:
        return None  # an unreadable rule never runs
