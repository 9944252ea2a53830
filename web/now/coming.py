"""The occurrences that come next, over all actions."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.read_rules import find_next_due
from models.database.tables import DUE_ACTIONS, scheduled_actions
from models.json_form import LocalTimeJson, make_local_time
from overview.zones import find_zone

#: How many are listed.
NEXT = 10

_kept = scheduled_actions.c


class ComingJson(TypedDict):
    """An occurrence that comes; ``due_at`` is when it is sent: with its jitter."""

    uid: str
    app: str
    name: str
    queue: str
    occurrence: LocalTimeJson
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Coming:
    """
    An occurrence that comes; times are aware UTC.

    Args:
        zone: Of its action.
        due_at: When it is sent: with its jitter.
    """

    uid: str
    app: str
    name: str
    queue: str
    zone: ZoneInfo
    occurrence: datetime
    due_at: datetime

    def as_json(self) -> ComingJson:
        """Return the documented object; keys are only added."""
        return {
            "uid": self.uid,
            "app": self.app,
            "name": self.name,
            "queue": self.queue,
            "occurrence": make_local_time(self.occurrence, self.zone),
            "due_at": self.due_at,
        }


def fetch_coming(
    connection: sa.Connection, *, app: str | None = None, count: int = NEXT
) -> list[Coming]:
    """
    Return the occurrences that come next, soonest first.

    What follows from events is left out: nobody knows it before the event.

    Args:
        app: Uid of the only small app that counts. None: all.
        count: The most to return.
    """
    # No other action can be among them: the first occurrence of each is later.
    rows = connection.execute(
        sa.select(*(each for each in _kept if each.name != "document"))
        .where(
            DUE_ACTIONS.of(scheduled_actions.name),
            _kept.timing.is_not(None),
            *(() if app is None else (_kept.app == app,)),
        )
        .order_by(_kept.next_due_at, _kept.uid)
        .limit(count)
    ).all()
    each = (_find_coming(row, count) for row in rows)
    return list(
        heapq.nsmallest(
            count,
            (coming for found in each for coming in found),
            key=lambda coming: (coming.due_at, coming.app, coming.name),
        )
    )


def _find_coming(row: sa.Row[Any], count: int) -> Iterator[Coming]:
    for due in find_next_due(row, count=count):
        zone = find_zone(row.timing, row.zone, due.occurrence)
        yield Coming(
            row.uid, row.app, row.name, row.queue, zone, due.occurrence, due.due_at
        )
