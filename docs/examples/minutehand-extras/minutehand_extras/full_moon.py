"""full_moon: a local time on the day of each full moon, by its mean length of cycle."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from models.when import InstalledWhen

#: A full moon, and how long it takes to the next one on average.
FIRST = datetime(2000, 1, 21, 4, 40, tzinfo=UTC)
CYCLE = timedelta(days=29.530588853)


class FullMoon(InstalledWhen):
    """Due at the local time *full_moon* of each day with a full moon."""

    full_moon: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = Field(
        examples=["19:00"]
    )

    def next_from(self, local: datetime) -> datetime | None:
        """Return the first such time at or after *local*."""
        zone = ZoneInfo(self.timezone)
        number = (local - FIRST) // CYCLE - 1
        while True:
            day = (FIRST + number * CYCLE).astimezone(zone).date()
            found = datetime.combine(day, time.fromisoformat(self.full_moon), zone)
            # As instants: within one zone, Python compares what the clocks show.
            if found.astimezone(UTC) >= local.astimezone(UTC):
                return found
            number += 1

    def describe(self) -> str:
        """Return it in words."""
        return f"on days with a full moon at {self.full_moon}"
