"""A rule simple enough to know all its occurrences, and actions that hold rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from models.scheduled_action import ScheduledActionModel

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)

UTC_ZONE = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class GridRule:
    """Due every *every* seconds, *offset* seconds after the epoch's multiples."""

    every: int
    offset: int = 0
    zone: ZoneInfo = UTC_ZONE

    def next_from(self, instant: datetime) -> datetime | None:
        """Return the first multiple at or after *instant*."""
        seconds = -((_EPOCH - instant) // _SECOND)
        count = -((self.offset - seconds) // self.every)
        return _EPOCH + timedelta(seconds=count * self.every + self.offset)

    def in_zone(self, zone: ZoneInfo) -> GridRule:
        """Return the same instants, read elsewhere."""
        return replace(self, zone=zone)

    def without_clock_changes(self) -> None:
        """Return None: the grid follows no clock."""


@dataclass(slots=True)
class CountingRule:
    """Another rule, and how often it was asked."""

    rule: GridRule
    asked: int = 0

    @property
    def zone(self) -> ZoneInfo:
        """The zone of the other rule."""
        return self.rule.zone

    def next_from(self, instant: datetime) -> datetime | None:
        """Ask the other rule."""
        self.asked += 1
        return self.rule.next_from(instant)

    def in_zone(self, zone: ZoneInfo) -> CountingRule:
        """Return the other rule in another zone; it begins to count anew."""
        return CountingRule(self.rule.in_zone(zone))

    def without_clock_changes(self) -> None:
        """Return what the other rule does."""


def make_action(when: object, **fields: object) -> ScheduledActionModel:
    """Return an action that sends a mail, due as *when* says."""
    document: Mapping[str, object] = {
        "name": "weekly",
        "operations": {"send_email": {"template": "hello"}},
        "recipients": {"groups": ["all"]},
        "when": when,
        **fields,
    }
    return ScheduledActionModel.model_validate(document)
