"""Find the actions that others follow (``after_action``), and refuse circles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa

from actions.read_actions import fetch_names
from models.database.tables import scheduled_actions
from models.errors import Problem
from models.fields.strict_model import find_near, show
from models.scheduled_action import ScheduledActionModel
from models.when import AFTER_ACTION, AfterActionModel

#: Names that a mistyped one is compared with.
_COMPARED = 1000

#: Names in one statement; far below the parameters that either database accepts.
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
