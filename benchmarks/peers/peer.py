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
AWAY = timedelta(minutes=30)


def this_minute() -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0)


def long_ago() -> datetime:
    """Return when what is due last ran, for those who ask for it."""
    return datetime.now(UTC) - timedelta(minutes=2)


def minute_of(now: datetime, *, is_due: bool) -> str:
    """Return the minute field of the cron rule of what is due, or is not."""
    return "*" if is_due else str((now + AWAY).minute)


def is_due(number: int, registered: int, due: int) -> bool:
    """Tell whether schedule *number* of *registered* is one of the *due*."""
    return number * due // registered < (number + 1) * due // registered


def queue_of(number: int) -> str:
    return QUEUES[number % 10 == 9]


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

    @property
    def queue(self) -> str:
        return queue_of(self.number)

    @property
    def arguments(self) -> dict[str, object]:
        return arguments_of(self.number)

    @property
    def name(self) -> str:
        return f"schedule {self.number}"


@dataclass
class Peer:
    """One scheduler, and one minute in its life; its servers are new and empty."""

    servers: Servers
    registered: int
    due: int

    #: The most that is tried; more would take this scheduler longer than anybody waits.
    most = 100_000

    #: The lists of Redis in which it is seen what was sent.
    queues = QUEUES

    #: How often it looks around by default while nothing is due.
    wakes_a_minute = 1.0

    #: How often it looks at something smaller than its schedules.
    looks_a_minute = 0.0

    def schedules(self) -> Iterator[Schedule]:
        now = this_minute()
        for number in range(self.registered):
            due = is_due(number, self.registered, self.due)
            yield Schedule(number, due, minute_of(now, is_due=due))

    def register(self) -> None:
        """Store the schedules, due since this minute, if they are not code."""

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
