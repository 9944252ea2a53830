"""The night that a seeded installation shows, and when what happened. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID, uuid5

#: Tuesday in London, 37 seconds after the tick of 03:02; the clocks go back on Sunday.
NOW = datetime(2026, 10, 20, 2, 2, 37, tzinfo=UTC)

#: How far back the operations reach: as long as they are kept by default.
HISTORY = timedelta(days=30)

_MINUTE = timedelta(minutes=1)
_SPACE = UUID("0d0a7a5e-5eed-5e5e-8e5e-1d5f0e2b9c11")


@dataclass(frozen=True)
class Scene:
    """
    When what happened; the same for the same arguments.

    Args:
        now: Aware UTC; nothing is later, but for what is planned.
        seed: Of everything that is drawn.
        history: How far back the operations reach; a few days are made in seconds.
    """

    now: datetime = NOW
    seed: int = 1
    history: timedelta = HISTORY

    @cached_property
    def begin(self) -> datetime:
        """The first instant of which operations are kept."""
        return self.last_tick - self.history

    @cached_property
    def last_tick(self) -> datetime:
        """The whole minute of *now*."""
        return self.now.replace(second=0, microsecond=0)

    @cached_property
    def outage(self) -> tuple[datetime, datetime]:
        """From when until when nobody led: 22 minutes of this night."""
        begin = self.last_tick - 111 * _MINUTE
        return begin, begin + 22 * _MINUTE + timedelta(seconds=2)

    @cached_property
    def quick_ended(self) -> datetime:
        """When the only worker of the quick queue took its last operation."""
        return self.now - timedelta(minutes=4, seconds=21)

    @cached_property
    def silent_at(self) -> datetime:
        """The last sign of life of that worker."""
        return self.now - timedelta(minutes=4, seconds=19)

    def draw(self, *what: Any) -> random.Random:
        """Return random numbers for *what* alone, so that no part moves another."""
        return random.Random(f"{self.seed} {what}")

    def make_id(self, *what: Any) -> UUID:
        """Return an id that nothing else is derived from."""
        return uuid5(_SPACE, f"{self.seed} {what}")
