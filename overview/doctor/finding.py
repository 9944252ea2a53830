"""What a look gets (View), what it reports (Finding), and from when on: the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

import sqlalchemy as sa

from actions.leader import Holder, fetch_holder
from models.fields.zone import load_zone
from models.operation_state import Queue
from models.units import show_instant
from operations.fleet.processes import Seen, fetch_processes
from overview.installation.figures import Backlog, fetch_backlog
from settings import Settings

#: Ticks are a minute apart, and one that takes some seconds is not late.
TICK_LATE_AFTER = timedelta(seconds=90)

#: Heartbeats that a leader may miss: one of them may just be on its way.
LOST_BEATS = 2

#: Of 100 operations, 95 begin sooner after they were recorded, or they begin late.
LAG_LONG = timedelta(seconds=30)

#: What begins later than this after it was due is late: ticks are a minute apart.
BEGAN_LATE_AFTER = timedelta(minutes=1)

#: Unsent for longer, with nothing in the way, is late: the leader looks every second.
UNSENT_AFTER = timedelta(minutes=1)

#: Sent and not taken for longer, although workers take: the queue is behind.
UNTAKEN_AFTER = timedelta(minutes=5)

#: How long a process that ended without signing off is told of.
SILENT_FOR = timedelta(hours=1)

#: While there are mails to send, one is tried at least every five minutes.
MAIL_FORGOTTEN_AFTER = timedelta(minutes=15)

#: How long it is told that the last ping of an action was refused.
PINGS_FOR = timedelta(days=1)

#: With fewer free bytes an operator should look: a large refresh needs this much.
LITTLE_SPACE = 1024**3

#: With fewer free bytes refreshes fail, or will soon.
NO_SPACE = 100 * 1024**2


class Health(StrEnum):
    """How healthy a subject is."""

    GOOD = "ok"
    DOUBTFUL = "look"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """
    What one look found.

    Args:
        subject: What was looked at, in a word or two.
        health: ``BAD`` only if runs are late or lost, or will be.
        detail: What was found and, unless it is good, what to do.
        title: The same in a few words, without the name of a host or of an app; "" if
            it is good.
        since: When it began, aware UTC. None: unknown, or nothing has.
        queue: The queue that it is about.
    """

    subject: str
    health: Health
    detail: str
    title: str = ""
    since: datetime | None = None
    queue: Queue | None = None

    @property
    def kind(self) -> str:
        """What was looked at, in one word."""
        return self.subject.partition(" ")[0]

    @property
    def name(self) -> str:
        """The title; what has none needs a look."""
        return self.title or f"{self.subject} needs a look"


def find_worst(findings: Iterable[Finding]) -> Health:
    """Return the worst health of *findings*; good if there are none."""
    found = {each.health for each in findings}
    worst_first = (Health.BAD, Health.DOUBTFUL)
    return next((each for each in worst_first if each in found), Health.GOOD)


@dataclass(frozen=True, slots=True)
class Examined:
    """
    What doctor found, and the worst of it.

    Whatever is outside of the database, such as the broker, is looked at again after
    ten seconds only, however many ask: ``age_s`` is the age of that.
    """

    health: Health
    findings: Sequence[Finding]
    age_s: float


@dataclass(frozen=True)
class View:
    """
    What a look may use; what several of them need is read once.

    Args:
        connection: Read-only.
        now: The database's clock, aware UTC.
        app: The only small app that is looked at, for those who may know neither hosts
            nor other apps. None: the installation.
    """

    connection: sa.Connection
    settings: Settings
    now: datetime
    app: str | None = None

    @cached_property
    def holder(self) -> Holder | None:
        """Who has the lease, or let it run out."""
        return fetch_holder(self.connection)

    @cached_property
    def seen(self) -> Sequence[Seen]:
        """Every process, alive or not."""
        return fetch_processes(self.connection)

    @cached_property
    def alive(self) -> Sequence[Seen]:
        """The processes that gave a sign of life lately."""
        return [each for each in self.seen if each.is_alive]

    @cached_property
    def backlog(self) -> Sequence[Backlog]:
        """The live operations."""
        return fetch_backlog(self.connection, now=self.now, app=self.app)

    def show(self, at: datetime) -> str:
        """Return *at* by the clocks of MINUTEHAND_TIMEZONE, and in UTC."""
        return show_instant(at, load_zone(self.settings.timezone))


Look = Callable[[View], Iterator[Finding]]
