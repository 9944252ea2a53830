"""
How many occurrences each of the next minutes has.

Only the actions that are due before the end are looked at, so that it costs nothing
that others exist: overview/load/forecast.py says more, of longer times, and takes
longer.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime, timedelta
from itertools import islice

import sqlalchemy as sa

from actions.occurrences import Schedule, parse_timing
from actions.when.searching import find_each
from models.database.tables import scheduled_actions
from models.errors import RuleError

#: How long it may take, after what there is has been read.
PATIENCE = timedelta(seconds=0.3)

#: Actions with the same rule that are due next at different instants.
_LOOKED_AT = 20_000

_kept = scheduled_actions.c

#: How the timing of an action with jitter reads: canonical JSON.
_HAS_JITTER = _kept.timing.contains('"jitter":"', autoescape=True)


def foresee_minutes(
    connection: sa.Connection,
    *,
    since: datetime,
    until: datetime,
    app: str | None = None,
) -> tuple[Counter[datetime], bool]:
    """
    Return how many occurrences each minute has, and whether all were counted.

    Args:
        since: The first minute, aware; in the future.
        until: The end of the last one.
        app: Uid of the only small app that counts. None: all.
    """
    # With jitter each action has its own minutes; without it, all of a rule the same.
    uid = sa.case((_HAS_JITTER, _kept.uid))
    rows = connection.execute(
        sa.select(_kept.timing, _kept.next_due_at, uid, sa.func.count())
        .where(
            _kept.next_due_at < until,
            _kept.active,
            _kept.paused_at.is_(None),
            _kept.quarantined_at.is_(None),
            _kept.deleted_at.is_(None),
            _kept.timing.is_not(None),
            *(() if app is None else (_kept.app == app,)),
        )
        .group_by(_kept.timing, _kept.next_due_at, uid)
        .limit(_LOOKED_AT + 1)
    ).all()
    deadline = time.monotonic() + PATIENCE.total_seconds()
    counts: Counter[datetime] = Counter()
    for timing, next_due_at, spread_uid, count in islice(rows, _LOOKED_AT):
        if time.monotonic() >= deadline:
            return counts, False
        try:
            schedule = parse_timing(timing)
        except RuleError:
            continue  # it goes into quarantine when it is due
        begin = max(since, next_due_at)
        for due_at in _find_due(schedule, spread_uid, begin, until):
            counts[due_at.replace(second=0, microsecond=0)] += count
    return counts, len(rows) <= _LOOKED_AT


def _find_due(
    schedule: Schedule, uid: str | None, begin: datetime, until: datetime
) -> list[datetime]:
    """Return when a schedule is due, with the jitter of *uid* if it has any."""
    if uid is None:
        return list(find_each(schedule, begin, until))
    found = find_each(schedule, begin - schedule.jitter, until)
    return [
        due_at
        for due_at in (schedule.due_at(each, uid) for each in found)
        if begin <= due_at < until
    ]
