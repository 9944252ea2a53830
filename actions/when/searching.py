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
    """A Rule or a Schedule: all that the searches below ask for."""

    def next_from(self, instant: datetime) -> datetime | None:
        """Return the first occurrence at or after *instant*; None if none is left."""
        ...


def find_each(series: Series, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the occurrences in ``[start, end)`` one by one; both aware, any zone."""
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
    Return how many occurrences lie in ``[start, end)``, but never more than *limit*.

    So *limit* as an answer means "that many or more"; ask with one more to tell.
    """
    return sum(1 for _ in islice(find_each(series, start, end), limit))


def find_last(series: Series, after: datetime, until: datetime) -> datetime | None:
    """
    Return the latest occurrence in ``(after, until]``; None if there is none.

    A binary search: ``next_from`` never decreases, so some 30 questions suffice
    for a year of a rule that is due every second.

    Args:
        series: A Schedule or one Rule.

        after: Aware, any zone; exclusive.

        until: Aware, any zone; inclusive.
    """
    until = as_utc(until)
    # Occurrences are whole seconds, so the first that can be later is the next one.
    latest = series.next_from(as_utc(after).replace(microsecond=0) + _SECOND)
    if latest is None or latest > until:
        return None

    # Nothing is due in [empty_from, until]; the search closes the space between.
    empty_from = until.replace(microsecond=0) + _SECOND
    probe = latest + _SECOND
    while probe < empty_from:
        found = series.next_from(probe)
        if found is None or found > until:
            empty_from = probe
        else:
            latest = found
        # In a first step the second right after: mostly there is but one.
        probe = latest + max((empty_from - latest) // _SECOND // 2, 1) * _SECOND
    return latest


def as_utc(instant: datetime, name: str = "instant") -> datetime:
    """
    Return *instant* in UTC.

    Raises:
        ValueError: If it has no offset, which names it as *name*: Python would read
            it in the zone of the host.
    """
    if instant.tzinfo is UTC:
        return instant
    if instant.utcoffset() is None:
        msg = f"{name} has no UTC offset: {instant!r}"
        raise ValueError(msg)
    return instant.astimezone(UTC)
