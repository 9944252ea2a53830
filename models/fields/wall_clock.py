"""
The instant at which a wall clock shows a given time. Pure.

``datetime`` answers this for every local time except those in a gap, for which its
answer is wrong by the size of the gap.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_SECOND = timedelta(seconds=1)


def first_instant_at(local: datetime, zone: ZoneInfo) -> datetime:
    """
    Return the first instant at which the clocks of *zone* show *local* or later.

    Args:
        local: Naive local time of *zone*, years 1900 to 9998.
        zone: The zone of *local*.

    Returns:
        Aware UTC. For a local time that occurs twice, the first of the two; for one in
        a gap, however long, the first instant after the gap.

    >>> paris = ZoneInfo("Europe/Paris")
    >>> first_instant_at(datetime(2026, 3, 29, 2, 30), paris).isoformat()
    '2026-03-29T01:00:00+00:00'
    >>> first_instant_at(datetime(2026, 10, 25, 2, 30), paris).isoformat()
    '2026-10-25T00:30:00+00:00'
    """
    after = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if after.astimezone(zone).replace(tzinfo=None) == local:
        return after

    # In a gap, fold 0 gives an instant after the change and fold 1 one before it.
    # Zones change on whole seconds, so the search is in whole seconds, too.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC).replace(microsecond=0)
    low, high = 0, (after - before) // _SECOND + 1
    while high - low > 1:
        middle = (low + high) // 2
        shown = (before + middle * _SECOND).astimezone(zone).replace(tzinfo=None)
        if shown < local:
            low = middle
        else:
            high = middle

    return before + high * _SECOND
