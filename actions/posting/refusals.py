"""Why an action that the door has read is refused all the same: names, uids, dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.occurrences import Schedule
from actions.read_actions import fetch_names
from actions.when.excluding import NO_DAYS
from models.database.tables import scheduled_actions
from models.errors import ConflictError, InvalidDocumentError, Problem
from models.fields.strict_model import MOST_PROBLEMS, find_near, show
from models.scheduled_action import ScheduledActionModel
from models.when import AFTER_ACTION, AfterActionModel, DueDateModel, TimingModel

#: Names that a mistyped one is compared with.
_COMPARED = 1000

#: Names or uids in one statement; far fewer than either database has parameters for.
_CHUNK = 500

_action = scheduled_actions.c


class GivenAction(NamedTuple):
    """An action that is to be stored, under which uid, and the row it replaces."""

    uid: str
    action: ScheduledActionModel
    old: sa.Row[Any] | None


def make_given(action: ScheduledActionModel, old: sa.Row[Any] | None) -> GivenAction:
    """Return *action* under its own uid, that of *old*, or a new one."""
    return GivenAction(action.uid or (old.uid if old else str(uuid4())), action, old)


class Formers:
    """
    The actions that those of *given* follow.

    One that is among *given* is found by its new name. Who followed an action keeps to
    it, whatever that is called by now, until it is deleted or another one is named.

    Args:
        given: All that are stored together.
        lock: Against others that would close a circle at the same moment. False: only
            look, since nothing will be stored.
    """

    def __init__(
        self,
        connection: sa.Connection,
        app: str,
        given: Sequence[GivenAction],
        *,
        lock: bool = True,
    ) -> None:
        """Look up all of them."""
        self._connection, self._app, self._lock = connection, app, lock
        asked = {each.uid: _get_asked(each.action) for each in given}
        self._names = {each.uid: each.action.name for each in given}
        self._edges: dict[str, str | None] = dict.fromkeys(asked)
        self._problems: dict[str, Problem] = {}
        if not any(asked.values()):
            return
        known = self._fetch([text for text in asked.values() if text], given)
        for each in given:
            text = asked[each.uid]
            if text is not None:
                kept = _find_kept(each.old, text, known)
                former = kept or known.get(text)
                self._edges[each.uid] = former
                if former is None:
                    self._problems[each.uid] = self._make_missing(text)
        for each in given:
            circle = self._find_circle(each.uid) if asked[each.uid] else None
            if circle is not None:
                self._problems[each.uid] = _make_circle(circle)

    def get(self, uid: str) -> str | None:
        """Return the uid of the action that *uid* follows; None: it follows none."""
        return self._edges[uid]

    def get_name(self, uid: str) -> str | None:
        """Return what the action that *uid* follows is called; None: there is none."""
        former = self._edges[uid]
        return None if former is None else self._names[former]

    def get_problem(self, uid: str) -> Problem | None:
        """Return why *uid* cannot follow what it names; None: it can."""
        return self._problems.get(uid)

    def _fetch(
        self, wanted: Sequence[str], given: Sequence[GivenAction]
    ) -> dict[str, str]:
        """Return the uids of what is named so, by name and by uid, which goes first."""
        own = [each.old.follows for each in given if each.old is not None]
        texts = sorted({*wanted, *(uid for uid in own if uid)})
        rows: list[sa.Row[Any]] = []
        for start in range(0, len(texts), _CHUNK):
            some = texts[start : start + _CHUNK]
            is_named = sa.or_(_action.uid.in_(some), _action.name.in_(some))
            rows += self._connection.execute(
                sa.select(_action.uid, _action.name).where(
                    _action.app == self._app, _action.deleted_at.is_(None), is_named
                )
            )
        by_name = {row.name: row.uid for row in rows if row.uid not in self._names}
        by_name |= {name: uid for uid, name in self._names.items()}
        uids = {row.uid for row in rows} | set(self._names)
        self._names = {row.uid: row.name for row in rows} | self._names
        return by_name | {uid: uid for uid in uids}

    def _find_circle(self, uid: str) -> list[str] | None:
        """Return the names from *uid* back to itself; None: it leads elsewhere."""
        path, at = [uid], self._get_former(uid)
        while at is not None and at not in path:
            path.append(at)
            at = self._get_former(at)
        return [self._names[each] for each in path] if at == uid else None

    def _get_former(self, uid: str) -> str | None:
        if uid not in self._edges:
            query = sa.select(_action.name, _action.follows).where(_action.uid == uid)
            if self._lock:
                query = query.with_for_update(read=True)
            row = self._connection.execute(query).one()
            self._names[uid], self._edges[uid] = row.name, row.follows
        return self._edges[uid]

    def _make_missing(self, text: str) -> Problem:
        names = fetch_names(self._connection, self._app, limit=_COMPARED)
        near = find_near(text, {*names, *self._names.values()})
        hint = "Post that one first, or both together."
        if near is not None:
            hint = f"Did you mean '{near}'?"
        message = f"Small app {self._app!r} has no action {show(text)}."
        return Problem(f"/when/{AFTER_ACTION}", message, hint, instead=near)


def name_former(
    connection: sa.Connection, app: str, given: GivenAction
) -> ScheduledActionModel:
    """Return the action of *given* with what it follows by its name, to be told so."""
    action = given.action
    name = Formers(connection, app, [given], lock=False).get_name(given.uid)
    if name is None:
        return action
    when = action.when.model_copy(update={AFTER_ACTION: name})  # type: ignore[union-attr]  # what follows has one rule
    return action.model_copy(update={"when": when})


def _get_asked(action: ScheduledActionModel) -> str | None:
    when = action.when
    return when.after_action if isinstance(when, AfterActionModel) else None


def _find_kept(old: sa.Row[Any] | None, text: str, known: dict[str, str]) -> str | None:
    """Return what *old* follows, if it still exists and is named as it was."""
    if old is None or old.follows not in known:
        return None
    return old.follows if old.document["when"].get(AFTER_ACTION) == text else None


def _make_circle(names: Sequence[str]) -> Problem:
    chain = " after ".join(show(name) for name in [*names, names[0]])
    message = f"It would start after itself: {chain}."
    hint = "Let one of them start at a time, or after an event."
    return Problem(f"/when/{AFTER_ACTION}", message, hint)


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
        self._by_uid: dict[str, sa.Row[Any]] = {}
        self._by_name: dict[str, sa.Row[Any]] = {}
        of_app = sa.and_(_action.app == app, _action.deleted_at.is_(None))
        for start in range(0, len(actions), _CHUNK):
            some = actions[start : start + _CHUNK]
            is_named = of_app & _action.name.in_([each.name for each in some])
            has_uid = _action.uid.in_([each.uid for each in some if each.uid])
            # in one order, so that no two posts wait for each other
            query = sa.select(scheduled_actions).where(is_named | has_uid)
            query = query.order_by(_action.uid)
            for row in connection.execute(query.with_for_update() if lock else query):
                self._by_uid[row.uid] = row
                if row.app == app and row.deleted_at is None:
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
                    f" (uid {old.uid}). Edit that one (minutehand actions post"
                    " --replace, over HTTP PUT), or choose another name."
                )
                return Problem("/name", msg, "")
            msg = (
                f"{self.app!r} already has an action with uid {old.uid!r}, named"
                f" {old.name!r}. Choose another uid, or none; or edit that one"
                " (minutehand actions post --replace)."
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
    if whole.next_from(oldest + timedelta.resolution) is not None:
        return None
    rule = timing.when[0]
    assert isinstance(rule, DueDateModel)  # all of them are, see above
    message = f"{rule.due_date} has passed, so the action would never run."
    hint = (
        "Write a future date. To run it now instead: post it with a future date and"
        ' "active": false, then run it (minutehand actions run).'
    )
    return Problem("/when/due_date", message, hint)


def find_other_uid(action: ScheduledActionModel, uid: str) -> Problem | None:
    """Return the problem of an *action* that is to replace *uid*, but has another."""
    if action.uid in {None, uid}:
        return None
    message = f"{show(action.uid)} is another uid, and a uid never changes."
    return Problem("/uid", message, f"Write {show(uid)}, or leave it out.")
