"""
When a due date is due: once. Pure.

models/fields/instants.py says which texts are allowed and which instant they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from models.fields.instants import parse_due_date
from models.fields.zone import load_zone
from models.when import DueDateModel


@dataclass(frozen=True, slots=True)
class DueDateRule:
    """
    A rule with one occurrence.

    Args:
        due_at: Aware UTC, whole seconds.
        zone: In which the text was read; it does not move *due_at*.
        text: *due_at* as its author wrote it. None: it is an instant in any zone.
    """

    due_at: datetime
    zone: ZoneInfo
    text: str | None = None

    def next_from(self, instant: datetime) -> datetime | None:
        """Return the due date unless it lies before *instant* (aware UTC)."""
        return self.due_at if instant <= self.due_at else None

    def in_zone(self, zone: ZoneInfo) -> DueDateRule:
        """Return the instant that the same text names in *zone*; see ``Rule``."""
        due_at = self.due_at if self.text is None else parse_due_date(self.text, zone)
        return replace(self, due_at=due_at, zone=zone)

    def without_clock_changes(self) -> None:
        """Return None: a date that the door accepted exists and happens once."""


def make_due_date_rule(model: DueDateModel) -> DueDateRule:
    """
    Return the rule that *model* describes.

    Raises:
        RuleError: If the zone is unknown, or the date is unreadable, has no time of
            day, lies outside the years 1970 to 9990, or does not exist in the zone.

    >>> model = DueDateModel(due_date="2026-12-01T09:00", timezone="Europe/Paris")
    >>> str(make_due_date_rule(model).due_at)
    '2026-12-01 08:00:00+00:00'
    """
    zone = load_zone(model.timezone)
    return DueDateRule(parse_due_date(model.due_date, zone), zone, model.due_date)
