"""What is not decided yet: counted from the rules, or known from the load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.load.counting import Counting
from actions.load.forecast import Load, LoadedMinute
from actions.load.foresee import Whose, count_others, foresee

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Coming:
    """
    What is coming in a period.

    Args:
        minutes: Those with an occurrence, in order.
        actions: How many actions were asked when they are due.
        left_out: How many were not, by the reason; see ``Load``.
    """

    minutes: Sequence[LoadedMinute]
    actions: int
    left_out: Mapping[str, int]


def find_coming(
    connection: sa.Connection,
    whose: Whose,
    since: datetime,
    until: datetime,
    *,
    load: Load | None,
    is_over: Callable[[], bool],
) -> Coming:
    """
    Return what is coming from *since* to before *until*.

    Args:
        whose: Whose occurrences.
        since: Aware UTC, a whole minute.
        until: Aware UTC. Not after *since*: nothing is coming, and nobody is asked.
        load: Theirs. If the period lies in its own, nothing is counted again, unless
            there was no time left to count all of that.
        is_over: Whether there is no time left to count.
    """
    if until <= since:
        return Coming((), 0, {})
    if load is not None and load.has_all(since, until):
        within = [each for each in load.minutes if since <= each.at < until]
        return Coming(within, load.actions, load.left_out)
    counting = Counting(since, until, named=0)
    found = foresee(connection, counting, whose, before=until, is_over=is_over)
    later, others = count_others(connection, whose, until)
    minutes = [
        LoadedMinute(since + number * _MINUTE, by_queue)
        for number, by_queue in counting.iterate_minutes()
    ]
    return Coming(minutes, found.actions + later, found.left_out + others)
