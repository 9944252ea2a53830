"""
What follows from a post: what it changes, when it will run, what may not be meant.

For whoever posts. Each function does the post itself, so that a refusal is the same
with and without a dry run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.list_actions import fetch_actions, find_next, get_action_state
from actions.lookup import find_action
from actions.occurrences import Schedule, make_schedule, parse_timing
from actions.posting.changes import COMPARED, Changes, compare_schedules
from actions.posting.post import Posted, fetch_holidays, post_action, post_actions
from actions.posting.references import References, find_unknown
from models.database.engine import read_clock
from models.errors import NotFoundError, Problem, RuleError
from models.scheduled_action import ScheduledActionModel
from models.timing import make_timing


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    A post, and the action as it stands after it.

    Args:
        posted: What was done.

        row: Of ``scheduled_actions``.

        is_stored: False: it was rolled back, so a new action has no uid yet.
    """

    posted: Posted
    row: sa.Row[Any]
    is_stored: bool = True

    @property
    def state(self) -> str:
        """Why it does not run, in a word; "active" if it does."""
        return get_action_state(self.row)

    def find_next(self, *, count: int) -> list[datetime]:
        """Return the next *count* occurrences, aware UTC."""
        return find_next(self.row, count=count)

    def as_json(self, *, count: int) -> dict[str, object]:
        """Return the documented object, with *count* occurrences at most."""
        has_uid = self.is_stored or not self.posted.created
        return {
            "uid": self.posted.uid if has_uid else None,
            "revision": self.posted.revision,
            "next": self.find_next(count=count),
            "superseded": list(self.posted.superseded),
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """
    What a post would do, and how the dispatches of the near future would differ.

    Args:
        posted: As if it had been stored.

        changes: From now on, for ``COMPARED``.
    """

    posted: Posted
    changes: Changes

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            "uid": None if self.posted.created else self.posted.uid,
            "revision": self.posted.revision,
            "superseded": list(self.posted.superseded),
            **self.changes.as_json(),
        }


def post_with_outcome(
    connection: sa.Connection,
    app: str,
    action: ScheduledActionModel,
    *,
    replace: bool,
    lookback: timedelta,
    by: str | None,
) -> Outcome:
    """Store *action* as ``post_action`` does, and return what comes of it."""
    posted = post_action(
        connection, app, action, replace=replace, lookback=lookback, by=by
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
    dry_run: bool = False,
) -> list[Outcome]:
    """
    Store all of *actions* as ``post_actions`` does, and return what comes of each.

    Args:
        connection: In a transaction of its own.

        app: Uid of a small app.

        actions: As the door read them.

        replace: As ``post_actions`` takes it.

        lookback: The same.

        by: The same.

        dry_run: Leave everything as it is, after all.
    """
    savepoint = connection.begin_nested()
    posted = post_actions(
        connection, app, actions, replace=replace, lookback=lookback, by=by
    )
    rows = {row.uid: row for row in fetch_actions(connection, app=app)}
    if dry_run:
        savepoint.rollback()
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
    Return what storing *action* would change; everything stays as it is.

    Args:
        connection: In a transaction of its own.

        app: Uid of a small app.

        action: As the door read it.

        replace: As ``post_action`` takes it.

        lookback: The same.

    Raises:
        NotFoundError, ConflictError, InvalidDocumentError: As ``post_action``.
    """
    old = _find_old(connection, app, action)
    now = read_clock(connection)
    holidays = fetch_holidays(connection, app)
    savepoint = connection.begin_nested()
    posted = post_action(connection, app, action, replace=replace, lookback=lookback)
    savepoint.rollback()
    created_at = now if old is None else old.created_at
    timing = make_timing(action, created_at=created_at, holidays=holidays)
    new = None if timing is None or not action.active else make_schedule(timing)
    changes = compare_schedules(
        _read_schedule(old), new, posted.uid, start=now, end=now + COMPARED
    )
    return Difference(posted, changes)


def find_doubts(known: References, action: ScheduledActionModel) -> list[Problem]:
    """
    Return what is accepted of *action*, and may not be what was meant.

    Args:
        known: Of its small app: see ``fetch_references``.

        action: As the door read it.

    Returns:
        That nobody gets its mails; then each name that the app does not have.
    """
    silent = [
        Problem("/recipients", f"they name nobody, so {step} reaches nobody.", "")
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
    if row is None or row.timing is None or get_action_state(row) != "active":
        return None
    try:
        return parse_timing(row.timing)
    except RuleError:
        return None  # nothing of it would ever run
