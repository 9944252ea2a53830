"""What was missed of one cause: nobody led, and several actions missed their time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from models.decision import get_action_name
from overview.doctor.thresholds import BEGAN_LATE_AFTER
from overview.installation.unled import Unled

#: The most actions of an outage that are named.
NAMED = 5


@dataclass(frozen=True, slots=True)
class MissingAction:
    """
    An action that missed occurrences.

    Args:
        count: How many.
    """

    uid: str
    name: str
    app: str
    count: int


class OutageJson(TypedDict):
    """
    A time in which nobody led, and occurrences of several actions were missed.

    ``count`` of occurrences of ``actions`` actions; ``is_more``: there are more than
    these. ``first`` has at most five of the actions, those that missed most.
    """

    since: datetime
    until: datetime | None
    count: int
    is_more: bool
    actions: int
    first: list[MissingAction]


@dataclass(frozen=True, slots=True)
class Outage:
    """
    A time in which nobody led, and occurrences of several actions were missed.

    Args:
        count: How many occurrences.
        is_more: Whether there are more than *count*.
        actions: Of how many actions.
        first: NAMED of these at most, those that missed most.
    """

    unled: Unled
    count: int
    is_more: bool
    actions: int
    first: Sequence[MissingAction]

    def as_json(self) -> OutageJson:
        """Return the documented object; keys are only added."""
        return {
            "since": self.unled.since,
            "until": self.unled.until,
            "count": self.count,
            "is_more": self.is_more,
            "actions": self.actions,
            "first": list(self.first),
        }


def split_missed(
    missed: Sequence[Any], unled: Sequence[Unled]
) -> tuple[list[Outage], list[Any]]:
    """
    Return the outages of several actions, the latest first, and the rows of no outage.

    Args:
        missed: Rows of operations that were missed.
        unled: When nobody led.
    """
    rows_of = defaultdict(list)
    for row in missed:
        outage = find_outage(unled, find_first(row), row.recorded_at)
        rows_of[outage].append(row)
    outages, apart = [], []
    for cause, rows in rows_of.items():
        actions = _count_missing(rows)
        if cause is None or len(actions) < 2:
            apart += rows
            continue
        count = sum(each.count for each in actions)
        is_more = any((row.details or {}).get("more") for row in rows)
        first = actions[:NAMED]
        outages.append(Outage(cause, count, is_more, len(actions), first))
    outages.sort(key=lambda each: each.unled.since, reverse=True)
    apart.sort(key=lambda row: row.finished_at, reverse=True)
    return outages, apart


def _count_missing(rows: Sequence[Any]) -> list[MissingAction]:
    """Return the actions of *rows*, those that missed most first."""
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for row in rows:
        key = row.action_uid, get_action_name(row.triggered_by), row.app
        counts[key] += (row.details or {}).get("count", 1)
    found = [MissingAction(*key, count) for key, count in counts.items()]
    return sorted(found, key=lambda each: (-each.count, each.name, each.uid))


def find_first(row: Any) -> datetime:
    """Return the first occurrence that *row* tells of."""
    first = (row.details or {}).get("first")
    return row.occurrence if first is None else datetime.fromisoformat(first)


def find_outage(
    unled: Sequence[Unled], first: datetime, recorded_at: datetime
) -> Unled | None:
    """
    Return the time without a leader in which occurrences were missed; None: unknown.

    Args:
        unled: Such times.
        first: The first occurrence that was missed.
        recorded_at: When they were recorded as missed.
    """
    for each in unled:
        if each.until is None:
            continue
        if each.since - BEGAN_LATE_AFTER <= first and (
            each.until <= recorded_at <= each.until + 5 * BEGAN_LATE_AFTER
        ):
            return each
    return None
