"""What every time kind can answer. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from zoneinfo import ZoneInfo


class Rule(Protocol):
    """
    A time kind, parsed: answers when it is due next, and nothing else.

    Everything else (ranges, the look-back, previews) is derived from
    ``next_from``, so the look-back finds exactly what the look-ahead promised.
    Immutable and hashable, so that actions with the same rule share it.
    """

    @property
    def zone(self) -> ZoneInfo:
        """The zone in which the rule is read."""
        ...

    def next_from(self, instant: datetime) -> datetime | None:
        """
        Return the first occurrence at or after *instant*.

        Args:
            instant: Aware UTC, between the years 1900 and 9990.

        Returns:
            Aware UTC datetime, whole seconds; None if the rule is never due again.
            Never raises for an accepted rule and costs a bounded time.
        """
        ...
