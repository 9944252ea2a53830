"""
What every scheduler is asked for, so that all are asked for the same.

*registered* schedules, of which every so many is due at one instant; the others half an
hour away. Nine in ten go to the queue "quick", one in ten to "heavy". Each scheduler
runs in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.servers import Servers

TASK = "benchmarks.nothing"
QUEUES = ("quick", "heavy")

#: Half an hour away from any instant that is measured.
_AWAY = timedelta(minutes=30)


def is_due(number: int, registered: int, due: int) -> bool:
    """Tell whether schedule *number* of *registered* is one of the *due*."""
    return number * due // registered < (number + 1) * due // registered


def queue_of(number: int) -> str:
    """Return the queue of schedule *number*."""
    return QUEUES[number % 10 == 9]


def minutes_of(number: int, registered: int, due: int, now: datetime) -> str:
    """Return the minute field of the cron rule of schedule *number*."""
    if is_due(number, registered, due):
        return "*"
    return str((now + _AWAY).minute)


def arguments_of(number: int) -> dict[str, object]:
    """Return the keyword arguments of the task: some 200 bytes of JSON."""
    return {
        "report": f"report {number}",
        "recipients": [f"user-{number}@example.org", "everybody@example.org"],
        "text": "The quick brown fox jumps over the lazy dog. " * 2,
    }


@dataclass(frozen=True)
class Schedule:
    """One of those that a case registers; *minute* is that field of its cron rule."""

    number: int
    is_due: bool
    minute: str
    queue: str
    arguments: dict[str, object]

    @property
    def cron(self) -> str:
        """Its whole rule."""
        return f"{self.minute} * * * *"

    @property
    def name(self) -> str:
        """Of its own."""
        return f"schedule {self.number}"


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

    def schedules(self) -> Iterator[Schedule]:
        """Give each of them, as of this minute."""
        now = this_minute()
        for n in range(self.registered):
            due = is_due(n, self.registered, self.due)
            minute = minutes_of(n, self.registered, self.due, now)
            yield Schedule(n, due, minute, queue_of(n), arguments_of(n))

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
