"""Why an action that the door has read is refused all the same: names, uids, dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.occurrences import Schedule, make_schedule
from actions.posting.bounds import find_excess
from actions.posting.formers import Formers, GivenAction
from actions.when.excluding import NO_DAYS
from models.database.tables import scheduled_actions
from models.errors import ConflictError, InvalidDocumentError, Problem
from models.fields.app_bounds import AppBounds
from models.fields.strict_model import MOST_PROBLEMS, show
from models.scheduled_action import ScheduledActionModel
from models.timing import timing_text
from models.when import DueDateModel, TimingModel

#: Actions in one statement; far below the parameters that either database accepts.
_CHUNK = 500


class Taken:
    """
    The names and uids that are taken among those of actions to be stored.

    The rows that have them are locked until the commit.

    Args:
        connection: In the transaction that stores *actions*.
        lock: False: only look, since nothing will be stored.

    Raises:
        NotFoundError: If there is no such small app.
    """

    def __init__(
        self,
        connection: sa.Connection,
        app: str,
        actions: Sequence[ScheduledActionModel],
        *,
        lock: bool = True,
    ) -> None:
        """Look up and lock all of them."""
        fetch_app(connection, app)
        self.app = app
        self._lock = lock
        self._by_uid: dict[str, sa.Row[Any]] = {}
        self._by_name: dict[str, sa.Row[Any]] = {}
        for start in range(0, len(actions), _CHUNK):
            self._fetch(connection, actions[start : start + _CHUNK])

    def _fetch(
        self, connection: sa.Connection, actions: Sequence[ScheduledActionModel]
    ) -> None:
        kept = scheduled_actions.c
        names = [action.name for action in actions]
        uids = [action.uid for action in actions if action.uid]
        of_app = sa.and_(kept.app == self.app, kept.deleted_at.is_(None))
        is_taken = of_app & kept.name.in_(names) | kept.uid.in_(uids)
        # in one order, so that no two posts wait for each other
        query = sa.select(scheduled_actions).where(is_taken).order_by(kept.uid)
        if self._lock:
            query = query.with_for_update()
        for row in connection.execute(query):
            self._by_uid[row.uid] = row
            if row.app == self.app and row.deleted_at is None:
                self._by_name[row.name] = row

    def has(self, uid: str) -> bool:
        """Tell whether the app has an action *uid* that is not deleted."""
        row = self._by_uid.get(uid)
        return row is not None and row.deleted_at is None and row.app == self.app

    def find_old(
        self, action: ScheduledActionModel, *, replace: bool
    ) -> sa.Row[Any] | None:
        """
        Return the row that *action* replaces; None if it is a new action.

        Args:
            action: One of those that were looked up.
            replace: Whether it may replace one.

        Raises:
            ConflictError: If its name or uid is taken and it may not replace that one.
        """
        conflict = self.find_conflict(action, replace=replace)
        if conflict is not None:
            raise ConflictError(conflict.message)
        if action.uid:
            return self._by_uid.get(action.uid)
        return self._by_name.get(action.name)

    def find_conflict(
        self, action: ScheduledActionModel, *, replace: bool
    ) -> Problem | None:
        """Return why *action* cannot be stored, as ``find_old``; None: it can."""
        named = self._by_name.get(action.name)
        old = self._by_uid.get(action.uid) if action.uid else named
        if old is not None and (old.deleted_at is not None or old.app != self.app):
            return Problem("/uid", _say_uid_is_gone(old, self.app), "")
        if named is not None and (old is None or named.uid != old.uid):
            msg = (
                f"another action of {self.app!r} is named {action.name!r}"
                f" (uid {named.uid}). Choose another name."
            )
            return Problem("/name", msg, "")
        if old is not None and not replace:
            if named is not None:
                msg = (
                    f"{self.app!r} already has an action named {old.name!r}"
                    f" (uid {old.uid}). Add --replace to put this one in its place,"
                    " or over HTTP PUT it there."
                )
                return Problem("/name", msg, "")
            msg = (
                f"{self.app!r} already has an action with uid {old.uid!r}, named"
                f" {old.name!r}. Choose another uid, or none; or add --replace to"
                " put this one in its place."
            )
            return Problem("/uid", msg, "")
        return None


def _say_uid_is_gone(old: sa.Row[Any], app: str) -> str:
    """Return why nobody gets the uid of *old* any more; of other apps, no more."""
    msg = f"uid {old.uid!r} is taken."
    if old.app == app:
        day = f"{old.deleted_at:%Y-%m-%d}"
        msg = (
            f"the action with uid {old.uid!r}, named {old.name!r}, was deleted on"
            f" {day}, and a uid is never used again: its runs keep it."
        )
    return f"{msg} Write another uid, or leave it out to get a new one."


def refuse_repeated(
    actions: Sequence[ScheduledActionModel], *, sources: Sequence[str] = ()
) -> None:
    """
    Refuse to store two actions under one name or uid.

    Args:
        sources: The file of each, if they come from files.

    Raises:
        InvalidDocumentError: Pointers begin with the number of the action, from 0.
    """
    problems: list[Problem] = []
    for key in ("name", "uid"):
        first: dict[str, int] = {}
        for index, action in enumerate(actions):
            value = getattr(action, key)
            if value is None:
                continue
            before = first.setdefault(value, index)
            if before != index:
                where = f"action {before} in the list"
                if sources:
                    where = f"the action in {sources[before]}"
                message = f"{show(value)} is also the {key} of {where}."
                hint = f"Give each action its own {key}."
                problems.append(Problem(f"/{index}/{key}", message, hint))
    if problems:
        raise InvalidDocumentError(tuple(problems[:MOST_PROBLEMS]))


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
    given: GivenAction,
    timing: TimingModel | None,
    *,
    oldest: datetime,
    bounds: Mapping[str, AppBounds],
) -> list[Problem]:
    """
    Return why a post of an action would be refused now; nothing is locked or stored.

    Args:
        timing: As make_timing returns it.
        oldest: Aware; a due date that was due by then has passed.

    Raises:
        NotFoundError: No such small app.
    """
    uid, action, old = given
    named = action
    found: list[Problem | None] = []
    if old is not None:
        found.append(find_other_uid(action, old.uid))
        uid, named = old.uid, action.model_copy(update={"uid": old.uid})
    taken = Taken(connection, app, [named], lock=False)
    found.append(taken.find_conflict(named, replace=old is not None))
    is_same = (
        old is not None and timing is not None and timing_text(timing) == old.timing
    )
    if timing is not None and not is_same:
        found.append(find_passed_due_date(timing, make_schedule(timing), oldest))
    formers = Formers(connection, app, [GivenAction(uid, named, old)], lock=False)
    found.append(formers.get_problem(uid))
    values = {"active": action.active, "timing": timing and timing_text(timing)}
    found += find_excess(connection, app, bounds, [(old, values)]).values()
    return [each for each in found if each is not None]
