"""
The filters of the list of operations, as the query of its page has them.

What cannot be read is told, and left out: a link of yesterday still leads to a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from dispatch.operation_filters import resolve_filter
from models.errors import ConflictError, NotFoundError, UsageError
from models.fields.instants import format_instant
from models.fields.strict_model import show
from models.operation_state import Mark, OperationState, Queue, Reason, Trigger
from models.paging import Page
from models.requests.operations import OperationFilterModel
from operations.operation_filter import OperationFilter
from serving.context import Context
from web.query import Query

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
class AskedList:
    """
    What the query of the page asks for.

    Args:
        model: As a bulk change takes it.
        wanted: The same, as it is looked for.
        range: A key of RANGES: how far back.
        given: The parameters in force, by name; the texts of the query.
        problems: What could not be read, in words.
    """

    model: OperationFilterModel
    wanted: OperationFilter
    page: Page
    range: str
    given: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def states(self) -> list[str]:
        """The state, or mark, that is asked for; several, of a link."""
        mark = self.model.mark
        return [str(mark)] if mark is not None else sorted(self.wanted.states)

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


def read_asked(
    context: Context, connection: sa.Connection, *, now: datetime, zone: ZoneInfo
) -> AskedList:
    """
    Return what the query of the page asks for, within what the caller may see.

    Args:
        connection: To look up names.
        now: Aware UTC.
        zone: In which times without offset are read.
    """
    query = Query(context)
    since, until = query.instant("from", zone), query.instant("until", zone)
    if since is not None and until is not None and since >= until:
        query.note("until: it is not after from, so both are left out.")
        since = until = None
    values: dict[str, Any] = {
        "from": since,
        "until": until,
        "text": query.text("text"),
        **{name: query.choice(name, kind) for name, kind in _CHOICES.items()},
        **_find_named(query, connection),
    }
    values = {name: value for name, value in values.items() if value is not None}
    given = {
        name: format_instant(value) if isinstance(value, datetime) else str(value)
        for name, value in values.items()
    }
    default = "all" if since or until else "7d" if "same_as" in values else "24h"
    chosen = query.text("range") or default
    if chosen not in RANGES:
        query.note(f"There is no range {show(chosen)}, only {', '.join(RANGES)}.")
        chosen = default
    length = RANGES[chosen]
    if length is not None:
        values["recorded_from"] = now - length
    model = OperationFilterModel(**values, **_read_states(query))
    wanted, page = resolve_filter(connection, model, app=context.app), query.page()
    return AskedList(model, wanted, page, chosen, given, tuple(query.problems))


_CHOICES: Mapping[str, type[StrEnum]] = {
    "queue": Queue,
    "trigger": Trigger,
    "reason": Reason,
}


def _read_states(query: Query) -> dict[str, Any]:
    states: list[OperationState] = []
    for word in query.all("state")[: len(OperationState) + len(Mark)]:
        if word in set(Mark):
            return {"mark": Mark(word)}
        if word in set(OperationState):
            states.append(OperationState(word))
        else:
            query.note(f"There is no state {show(word)}.")
    return {"state": sorted(set(states))}


def _find_named(query: Query, connection: sa.Connection) -> dict[str, Any]:
    """Return the app, the action and the failure that are named, and known."""
    context = query.context
    found: dict[str, Any] = {}
    for name in ("app", "action", "same_as"):
        text = query.text(name)
        if text is None:
            continue
        try:
            if name == "app":
                context.narrow(text)
            asked = OperationFilterModel(**{**found, name: text})
            resolve_filter(connection, asked, app=context.app)
        except ValueError:
            query.note(f"{name}: {show(text)} is not {_NOUNS[name]}.")
        except (NotFoundError, ConflictError, UsageError) as error:
            query.note(f"{name}: {error}")
        else:
            found[name] = text
    return found


_NOUNS = {
    "app": "the uid of a small app",
    "action": "the name of an action",
    "same_as": "the id of an operation",
}
