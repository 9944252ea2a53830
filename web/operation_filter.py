"""
The filters of the list of operations, as the query of its page has them.

What cannot be read is told, and left out: a link of yesterday still leads to a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lookup import find_filtered
from models.errors import ConflictError, NotFoundError, UsageError
from models.fields.instants import format_instant
from models.fields.strict_model import show
from models.operation_state import Mark, OperationState, Queue, Reason, Trigger
from models.paging import Page
from operations.operation_filter import OperationFilter
from overview.operations.same_cause import read_cause
from serving.context import Context
from web.query import Query

_Choice = TypeVar("_Choice", bound=StrEnum)

#: How far back a list goes, by what its links say. None: to the beginning.
RANGES: Mapping[str, timedelta | None] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "all": None,
}

#: In words.
RANGE_WORDS = {
    "1h": "the last hour",
    "24h": "the last 24 h",
    "7d": "the last 7 days",
    "all": "all times",
}

#: The parameters that choose operations, in the order of their chips.
NAMES = (
    *("app", "action", "queue", "trigger", "reason", "text", "same_as"),
    *("from", "until"),
)


@dataclass(frozen=True, slots=True)
class Chip:
    """
    A filter in force.

    Args:
        drops: The parameters to leave out to remove it.
    """

    label: str
    value: str | datetime
    drops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """
    What the query of the page asks for.

    Args:
        range: A key of RANGES: how far back.
        given: The parameters in force, by name; the texts of the query.
        problems: What could not be read, in words.
    """

    wanted: OperationFilter
    page: Page
    range: str
    given: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def states(self) -> list[str]:
        """The state, or mark, that is asked for; several, of a link."""
        if self.wanted.is_retrying:
            return [str(Mark.RETRYING)]
        if self.wanted.is_uncertain:
            return [str(Mark.UNCERTAIN)]
        return sorted(self.wanted.states)

    @property
    def is_narrowed(self) -> bool:
        """Whether anything but the time is asked for."""
        return bool(self.states or set(self.given) - {"from", "until"})

    @property
    def chips(self) -> list[Chip]:
        """The filters in force, but for the state."""
        found = [
            Chip(name.replace("_", " "), self.given[name], (name,))
            for name in NAMES
            if name in self.given and name not in {"from", "until"}
        ]
        if self.wanted.since is not None:
            found.append(Chip("due from", self.wanted.since, ("from",)))
        if self.wanted.until is not None:
            found.append(Chip("due until", self.wanted.until, ("until",)))
        return found


@dataclass(slots=True)
class _Reader:
    """Reads parameters, and remembers which are in force."""

    query: Query
    given: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        text = self.query.text(name)
        if text is not None:
            self.given[name] = text
        return text

    def choice(self, name: str, kind: type[_Choice]) -> _Choice | None:
        found = self.query.choice(name, kind)
        if found is not None:
            self.given[name] = str(found)
        return found

    def instant(self, name: str, zone: ZoneInfo) -> datetime | None:
        found = self.query.instant(name, zone)
        if found is not None:
            self.given[name] = format_instant(found)
        return found

    def states(self) -> tuple[frozenset[OperationState], Mark | None]:
        states, mark = set(), None
        for word in self.query.all("state")[: len(OperationState) + len(Mark)]:
            if word in set(Mark):
                mark = Mark(word)
            elif word in set(OperationState):
                states.add(OperationState(word))
            else:
                self.query.note(f"There is no state {show(word)}.")
        return frozenset(() if mark else states), mark


def read_asked(
    context: Context, connection: sa.Connection, *, now: datetime, zone: ZoneInfo
) -> Asked:
    """
    Return what the query of the page asks for, within what the caller may see.

    Args:
        connection: To look up names.
        now: Aware UTC.
        zone: In which times without offset are read.
    """
    query = Query(context)
    reader = _Reader(query)
    states, mark = reader.states()
    since, until = reader.instant("from", zone), reader.instant("until", zone)
    if since is not None and until is not None and since >= until:
        query.note("until: it is not after from, so both are left out.")
        since = until = None
    wanted = OperationFilter(
        app=context.app,
        states=states,
        queue=reader.choice("queue", Queue),
        trigger=reader.choice("trigger", Trigger),
        reason=reader.choice("reason", Reason),
        since=since,
        until=until,
        is_retrying=mark is Mark.RETRYING,
        is_uncertain=mark is Mark.UNCERTAIN,
    )
    if (text := reader.text("text")) is not None:
        wanted = replace(wanted, text=text)
    wanted = _find_named(reader, connection, wanted)
    default = "all" if since or until else "7d" if wanted.cause else "24h"
    chosen = query.text("range") or default
    if chosen not in RANGES:
        query.note(f"There is no range {show(chosen)}, only {', '.join(RANGES)}.")
        chosen = default
    length = RANGES[chosen]
    if length is not None:
        wanted = replace(wanted, recorded_since=now - length)
    return Asked(
        wanted=wanted,
        page=query.page(),
        range=chosen,
        given=reader.given,
        problems=tuple(query.problems),
    )


def _find_named(
    reader: _Reader, connection: sa.Connection, wanted: OperationFilter
) -> OperationFilter:
    """Return *wanted* of the app, the action and the failure that are named."""
    query, context = reader.query, reader.query.context
    found: dict[str, Any] = {}
    for name in ("app", "action", "same_as"):
        text = query.text(name)
        if text is None:
            continue
        try:
            if name == "app":
                app = context.narrow(text)
                find_filtered(connection, app=app, action=None)
                found["app"] = app
            elif name == "action":
                app = found.get("app", context.app)
                found["action_uid"] = find_filtered(connection, app=app, action=text)
            else:
                id_ = UUID(text)
                found["cause"] = read_cause(connection, id_, app=context.app)
        except ValueError:
            query.note(f"{name}: {show(text)} is not the id of an operation.")
        except (NotFoundError, ConflictError, UsageError) as error:
            query.note(f"{name}: {error}")
        else:
            reader.given[name] = text
    return replace(wanted, **found)
