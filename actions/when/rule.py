"""What every time kind must answer; mypy reports a new kind that cannot. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, Self
from zoneinfo import ZoneInfo


class Rule(Protocol):
    """
    A parsed rule: says when it is due next, in its own zone and in others.

    All occurrences (of ranges, the look-back and previews) are derived from
    ``next_from``, so the look-back finds exactly what the look-ahead promised. A rule
    is immutable and hashable, so actions with the same rule share it.
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
            Aware UTC, whole seconds. None: the rule is never due again. Never raises
            for an accepted rule, and takes a bounded time.
        """
        ...

    def in_zone(self, zone: ZoneInfo) -> Self:
        """
        Return this rule as if its author had written it for *zone*.

        An instant that was written with an offset does not move.

        Raises:
            RuleError: A local time in the rule does not exist in *zone*.
        """
        ...

    def without_clock_changes(self) -> Self | None:
        """
        Return this rule on a clock that never changes; notes compare the two.

        Returns:
            The rule with its local times taken as UTC. None: clock changes do not
            affect it.
        """
        ...
