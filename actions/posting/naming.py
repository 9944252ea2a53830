"""Which names and uids are taken, and which action a posted one replaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from actions.lookup import fetch_app
from models.database.tables import scheduled_actions
from models.errors import ConflictError, InvalidDocumentError, Problem
from models.fields.strict_model import MOST_PROBLEMS, show
from models.scheduled_action import ScheduledActionModel

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
        same_name = (kept.app == self.app, kept.name.in_(names))
        query = (
            sa.select(scheduled_actions)
            .where(
                sa.or_(
                    sa.and_(*same_name, kept.deleted_at.is_(None)), kept.uid.in_(uids)
                )
            )
            # in one order, so that no two posts wait for each other
            .order_by(kept.uid)
        )
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
