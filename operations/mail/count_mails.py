"""Count mails by state: exactly for a change of many, and within bounds for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.engine import read_clock
from models.database.tables import deliveries, operations
from operations.mail.list_mails import (
    INDEXED,
    MailSelection,
    MailState,
    match_mails,
    own_mails,
)

#: How far back mails that wait for nobody are counted, unless somebody says otherwise.
COUNTED_WITHIN = timedelta(hours=24)

#: Mails that are counted at most, which takes some 15 ms.
COUNTED = 20_000

_marks = deliveries.c


class MailCountJson(TypedDict):
    """How many mails are in a state."""

    state: MailState
    count: int


class MailCountsJson(TypedDict):
    """
    How many mails there are, by state; a state without any is left out.

    Those that failed or are uncertain, which wait for somebody, are counted however old
    they are; the others if they last changed at or after *since*. ``is_whole`` is false
    if there are too many to be counted: then these are the latest.
    """

    items: list[MailCountJson]
    total: int
    since: datetime
    is_whole: bool


@dataclass(frozen=True, slots=True)
class MailCounts:
    """
    How many mails there are, as far as was counted.

    Args:
        by_state: A state without any is left out.
        since: From when on mails were counted that wait for nobody, aware UTC.
        is_whole: Whether all that were meant were counted.
    """

    by_state: Mapping[str, int]
    since: datetime
    is_whole: bool

    def as_json(self) -> MailCountsJson:
        """Return the documented object; keys are only added."""
        return {
            "items": [
                {"state": state, "count": self.by_state[state]}
                for state in MailState
                if state in self.by_state
            ],
            "total": sum(self.by_state.values()),
            "since": self.since,
            "is_whole": self.is_whole,
        }


def count_mails(connection: sa.Connection, wanted: MailSelection) -> dict[str, int]:
    """Return how many mails are meant, by state."""
    counts: Counter[str] = Counter()
    of_any = [*match_mails(replace(wanted, app=None))]
    for owned in own_mails(wanted.app):
        query = sa.select(_marks.state, sa.func.count()).where(*of_any, *owned)
        if wanted.action_uid is not None or len(owned) > 1:
            # To look up the operation of each mail takes ten times as long as to count
            # the mails, so that is not done where no condition asks for it.
            query = query.join_from(deliveries, operations)
        for state, count in connection.execute(query.group_by(_marks.state)):
            counts[state] += count
    return dict(counts)


def count_lately(
    connection: sa.Connection, wanted: MailSelection, *, most: int = COUNTED
) -> MailCounts:
    """
    Count mails by state, within bounds that keep it cheap.

    Args:
        wanted: Which. Without *since* and *until*, mails that wait for nobody are
            counted if they changed within ``COUNTED_WITHIN``.
        most: How many to look at for each state that waits for somebody, and for the
            others together.
    """
    since = wanted.since
    if since is None:
        since = (wanted.until or read_clock(connection)) - COUNTED_WITHIN
    counts: Counter[str] = Counter()
    for state in INDEXED:
        if wanted.state in {None, state}:
            counts += _count_latest(connection, replace(wanted, state=state), most)
    is_whole = all(count < most for count in counts.values())
    if wanted.state not in INDEXED:
        latest = _count_latest(connection, replace(wanted, since=since), most)
        is_whole &= latest.total() < most
        counts |= {each: n for each, n in latest.items() if each not in INDEXED}
    return MailCounts(dict(counts), since, is_whole)


def _count_latest(
    connection: sa.Connection, wanted: MailSelection, most: int
) -> Counter[str]:
    """Count the latest *most* mails that are meant, by state."""
    counts: Counter[str] = Counter()
    needs_operation = wanted.action_uid is not None
    for owned in own_mails(wanted.app):
        query = sa.select(_marks.state).where(
            *match_mails(replace(wanted, app=None)), *owned
        )
        if needs_operation or len(owned) > 1:
            query = query.join_from(deliveries, operations)
        latest = query.order_by(_marks.updated_at.desc()).limit(most).subquery()
        for state, count in connection.execute(
            sa.select(latest.c.state, sa.func.count()).group_by(latest.c.state)
        ):
            counts[state] += count
    return counts


def count_operations(connection: sa.Connection, wanted: MailSelection) -> int:
    """Return how many operations have mails that are meant."""
    return connection.execute(
        sa.select(sa.func.count(_marks.operation_id.distinct()))
        .join_from(deliveries, operations)
        .where(*match_mails(wanted))
    ).scalar_one()
