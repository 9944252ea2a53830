"""What a scheduler must offer to be measured. Each runs in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.load import QUEUES
from benchmarks.servers import Servers


@dataclass
class Peer:
    """
    One scheduler, and one minute in its life.

    Args:
        servers: New and empty when ``register`` is called.
        registered: How many schedules there are.
        due: How many of them are due at once.
    """

    servers: Servers
    registered: int
    due: int

    #: The most that is tried; more would take this scheduler longer than anybody waits.
    most = 100_000

    #: The lists of Redis in which it is seen what was sent.
    queues = QUEUES

    #: Or, of one whose queue is a table of PostgreSQL, what counts its messages.
    count_query = ""

    #: How often it looks around by default while nothing is due.
    wakes_a_minute = 1.0

    #: How often it looks at something smaller than its schedules.
    looks_a_minute = 0.0

    def register(self) -> None:
        """Store the schedules, due since this minute; not measured."""
        raise NotImplementedError

    def load(self) -> None:
        """Start the scheduler, up to the moment at which it could send."""
        raise NotImplementedError

    def send_due(self) -> None:
        """Send all that is due; this is what is measured."""
        raise NotImplementedError

    def wake(self) -> None:
        """Look around once while nothing is due."""
        self.send_due()

    def look(self) -> None:
        """Look at that something once."""

    def close(self) -> None:
        """Give back what would keep the process from ending."""


def this_minute() -> datetime:
    """Return the minute that has begun, aware UTC."""
    return datetime.now(UTC).replace(second=0, microsecond=0)


def long_ago() -> datetime:
    """Return when what is due last ran, for those who ask for it."""
    return datetime.now(UTC) - timedelta(minutes=2)
