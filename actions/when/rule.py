"""What every time kind can answer; a new kind that cannot is told by mypy. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, Self
from zoneinfo import ZoneInfo


class Rule(Protocol):
    """
    A time kind, parsed: answers when it is due next, by its clock and by others.

    All occurrences (ranges, the look-back, previews) are derived from
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

    def in_zone(self, zone: ZoneInfo) -> Self:
        """
        Return this rule as it would be, had its author written it for *zone*.

        An instant that was given with its offset stays where it is.

        Raises:
            RuleError: A local time that was given never comes in *zone*.
        """
        ...

    def without_clock_changes(self) -> Self | None:
        """
        Return this rule on a clock that is never changed, for notes to compare with.

        Returns:
            Its local times given as if they were UTC. None: clock changes do not
            touch a rule of this kind.
        """
        ...
