"""
Find the occurrences of a rule, or of a whole schedule, in a range. Pure.

Everything is derived from one question, "what is the first occurrence at or after
this instant?", so looking back finds exactly what looking ahead promised.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Protocol

_SECOND = timedelta(seconds=1)


class Series(Protocol):
    """A Rule or a Schedule: what the searches below need of them."""

    def next_from(self, instant: datetime) -> datetime | None:
        """Return the first occurrence at or after *instant*; None if none is left."""
        ...


def find_each(series: Series, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the occurrences in ``[start, end)`` in order; bounds aware, any zone."""
    end = as_utc(end)
    occurrence = series.next_from(as_utc(start))
    while occurrence is not None and occurrence < end:
        yield occurrence
        occurrence = series.next_from(occurrence + _SECOND)


def find_occurrences(
    series: Series, start: datetime, end: datetime, *, limit: int | None = None
) -> list[datetime]:
    """
    Return the occurrences in ``[start, end)``, oldest first, without jitter.

    Args:
        series: A Schedule or one Rule.
        start: Aware, any zone; inclusive.
        end: Aware, any zone; exclusive.
        limit: The most to return. None: all of them.
    """
    return list(islice(find_each(series, start, end), limit))


def count_occurrences(
    series: Series, start: datetime, end: datetime, *, limit: int = 1000
) -> int:
    """
    Return how many occurrences lie in ``[start, end)``, but at most *limit*.

    So the answer *limit* means "that many or more"; call with *limit* plus one to
    distinguish the two.
    """
    return sum(1 for _ in islice(find_each(series, start, end), limit))


def find_last(series: Series, after: datetime, until: datetime) -> datetime | None:
    """
    Return the latest occurrence in ``(after, until]``; None if there is none.

    This is a binary search, since ``next_from`` never decreases: some 30 calls suffice
    for a year of a rule that is due every second.

    Args:
        series: A Schedule or one Rule.
        after: Aware, any zone; exclusive.
        until: Aware, any zone; inclusive.
    """
    until = as_utc(until)
    # Occurrences are on whole seconds, so the next second is the first candidate.
    latest = series.next_from(as_utc(after).replace(microsecond=0) + _SECOND)
    if latest is None or latest > until:
        return None

    # Nothing is due in [empty_from, until]; the search narrows the range before it.
    empty_from = until.replace(microsecond=0) + _SECOND
    # First try the very next second: mostly there is no other occurrence.
    probe = latest + _SECOND
    while probe < empty_from:
        found = series.next_from(probe)
        if found is None or found > until:
            empty_from = probe
        else:
            latest = found
        probe = latest + max((empty_from - latest) // _SECOND // 2, 1) * _SECOND
    return latest


def as_utc(instant: datetime, name: str = "instant") -> datetime:
    """
    Return *instant* in UTC.

    Raises:
        ValueError: If it has no UTC offset: Python would read it in the zone of the
            host. The message calls it *name*.
    """
    if instant.tzinfo is UTC:
        return instant
    if instant.utcoffset() is None:
        raise ValueError(f"{name} has no UTC offset: {instant!r}")
    return instant.astimezone(UTC)
