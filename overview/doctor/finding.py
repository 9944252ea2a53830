"""What a look gets (View), and what it reports (Finding)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property

import sqlalchemy as sa

from actions.lease import (
    Holder,
    SendFailure,
    fetch_holder,
    get_last_tick_at,
    get_send_failure,
)
from actions.pausing.pause_state import Pause, fetch_pauses
from actions.pausing.queues import fetch_queue_pauses
from models.fields.zone import load_zone
from models.operation_state import Queue
from models.units import show_instant
from operations.fleet.processes import Seen, fetch_processes
from overview.installation.figures import (
    Backlog,
    Lag,
    QueueNow,
    RecentTrouble,
    count_uncertain,
    fetch_backlog,
    fetch_lag,
    fetch_troubles,
    find_queues,
)
from settings import Settings


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
        health: ``bad`` only if runs are late or lost, or will be.
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
    def ticked_at(self) -> datetime | None:
        """When the last tick was, aware UTC. None: there was none."""
        return get_last_tick_at(self.connection)

    @cached_property
    def send_failure(self) -> SendFailure | None:
        """Why the leader cannot send. None: it can."""
        return get_send_failure(self.connection)

    @cached_property
    def pauses(self) -> tuple[Pause | None, Mapping[str, Pause], int]:
        """That of the installation, those of apps, and how many actions are paused."""
        whole, apps, actions = fetch_pauses(self.connection, self.app)
        return whole and whole.seen_by(self.app), apps, actions

    @property
    def pause(self) -> Pause | None:
        """That of all that is looked at."""
        whole, apps, _actions = self.pauses
        return whole or apps.get(self.app or "")

    @cached_property
    def queue_pauses(self) -> Mapping[Queue, Pause]:
        """Those of queues."""
        found = fetch_queue_pauses(self.connection)
        return {queue: each.seen_by(self.app) for queue, each in found.items()}

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

    @cached_property
    def queues(self) -> Mapping[Queue, QueueNow]:
        """How each queue is."""
        return find_queues(self.backlog, self.seen, self.now)

    @cached_property
    def lag(self) -> Lag:
        """How long what was recorded lately waited for its first start."""
        return fetch_lag(self.connection, app=self.app)

    @cached_property
    def troubles(self) -> Sequence[RecentTrouble]:
        """What failed, was missed or became uncertain lately."""
        return fetch_troubles(self.connection, app=self.app)

    @cached_property
    def uncertain(self) -> int:
        """How many mails are uncertain, however old."""
        return count_uncertain(self.connection, app=self.app)

    def show(self, at: datetime) -> str:
        """Return *at* by the clocks of MINUTEHAND_TIMEZONE, and in UTC."""
        return show_instant(at, load_zone(self.settings.timezone))


Look = Callable[[View], Iterator[Finding]]
