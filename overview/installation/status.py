"""The state of the installation at this moment, for every face."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.leader import (
    Holder,
    Leadership,
    SendFailure,
    fetch_holder,
    fetch_leaderships,
    get_last_tick_at,
    get_send_failure,
)
from actions.pausing.pause_state import Pause, PauseJson, fetch_pauses
from actions.pausing.queues import fetch_queue_pauses
from actions.read_actions import Quarantined, QuarantinedJson, fetch_quarantined
from actions.read_rules import NextDue, NextDueJson, fetch_next_due
from models.database.engine import read_clock
from models.operation_state import OperationState, Queue
from operations.fleet.processes import Seen, fetch_processes
from overview.installation.figures import (
    Backlog,
    Running,
    RunningJson,
    Trouble,
    count_uncertain,
    fetch_backlog,
    fetch_data_updated,
    fetch_last_success,
    fetch_running,
    fetch_troubles,
    find_oldest,
    find_takers,
)
from overview.installation.queues import (
    Waiting,
    find_age_s,
    make_waiting,
)
from overview.installation.workers import ProcessJson, make_process_json

#: The most actions that are listed as due next.
_NEXT = 5

#: The most leaderships that are listed.
_PAST = 10

#: The most running operations that are listed.
_RUNNING = 20

#: Sorts after every instant since which something waits.
_NEVER = datetime.max.replace(tzinfo=UTC)


class PausedJson(TypedDict):
    """What is paused: the installation, apps by uid, queues, and how many actions."""

    all: PauseJson | None
    apps: dict[str, PauseJson]
    actions: int
    queues: dict[str, PauseJson]


@dataclass(frozen=True, slots=True)
class Paused:
    """
    What is paused.

    Args:
        whole: The pause of the whole installation. None: it is not paused.

        apps: The pauses of small apps, by uid.

        actions: How many actions are paused, on their own or with others.

        queues: The pauses of queues, of which nothing is sent.
    """

    whole: Pause | None
    apps: Mapping[str, Pause]
    actions: int
    queues: Mapping[Queue, Pause] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is paused."""
        pauses = self.actions or self.whole or self.apps or self.queues
        return not pauses

    def as_json(self) -> PausedJson:
        """Return the documented object; keys are only added."""
        return {
            "all": None if self.whole is None else self.whole.as_json(),
            "apps": {uid: each.as_json() for uid, each in self.apps.items()},
            "actions": self.actions,
            "queues": {
                queue.value: each.as_json() for queue, each in self.queues.items()
            },
        }


class LeaderJson(TypedDict):
    """The scheduler that has the lease; ``stale``: it let the lease run out."""

    host: str
    pid: int
    since: datetime
    fence: int
    heartbeat_at: datetime
    heartbeat_age_s: float
    expires_at: datetime
    stale: bool


class SendFailureJson(TypedDict):
    """Since when the leader cannot send, and the broker's last error."""

    since: datetime
    error: str


class QueueJson(TypedDict):
    """
    A queue: its living workers, and how many operations they run at a time.

    ``waiting_since`` and ``oldest_s`` are of the oldest operation that no worker has
    taken; null: none waits.
    """

    workers: int
    slots: int
    waiting_since: datetime | None
    oldest_s: float | None


class BacklogJson(TypedDict):
    """The live operations of an app in a queue and state."""

    app: str
    queue: Queue
    state: OperationState
    count: int
    waiting_since: datetime | None
    oldest_s: float | None


class TroubleJson(TypedDict):
    """
    What went wrong in an app within the last hour, by reason.

    ``state`` is failed or missed; of mails it is uncertain, and ``reason`` the step.
    """

    app: str
    state: str
    reason: str
    count: int
    latest_at: datetime


class LeadershipJson(TypedDict):
    """Who led; ``released_at`` null: it still does, or let its lease run out."""

    fence: int
    host: str
    pid: int
    since: datetime
    released_at: datetime | None


class StatusJson(TypedDict):
    """
    The state of the installation.

    ``tick_age_s`` is the age of the last tick; ``lag_s`` how long the oldest operation
    that no worker has taken waits (0: none does). ``backlog`` is the count of live
    operations by queue and state. ``last_success_at`` is looked for among the latest
    thousand operations; ``data_updated_at`` is when data were last published.
    """

    now: datetime
    leader: LeaderJson | None
    last_tick_at: datetime | None
    tick_age_s: float | None
    lag_s: float
    send_failure: SendFailureJson | None
    backlog: dict[str, dict[str, int]]
    quarantined: list[QuarantinedJson]
    paused: PausedJson
    next_due: list[NextDueJson]
    queues: dict[str, QueueJson]
    backlog_by_app: list[BacklogJson]
    running: list[RunningJson]
    last_success_at: datetime | None
    data_updated_at: datetime | None
    last_hour: list[TroubleJson]
    uncertain_mails: int
    processes: list[ProcessJson]
    leaderships: list[LeadershipJson]


@dataclass(frozen=True, slots=True)
class Status:
    """
    The state of the installation; times are aware UTC, by the database's clock.

    Args:
        leader: None if the lease was released, or never taken.

        last_tick_at: None if there has never been a tick.

        send_failure: None if the leader can send, or has not tried.

        backlog: The live operations, by queue, app and state.

        troubles: What went wrong within the last hour.

        uncertain: How many mails an operator has to decide about, however old.

        processes: Schedulers and workers, including those that ended without signing
            off.

        leaderships: Who has led, the latest first, at most ten.

        paused: What is paused.

        quarantined: Actions that could not be read.

        next_due: The actions that are due next, at most five.

        running: Operations that workers run, the longest running first, at most twenty.

        last_success_at: When an operation last succeeded, among the latest thousand.

        data_updated_at: When data were last published. None: never.
    """

    now: datetime
    leader: Holder | None
    last_tick_at: datetime | None
    send_failure: SendFailure | None
    backlog: Sequence[Backlog]
    troubles: Sequence[Trouble]
    uncertain: int
    processes: Sequence[Seen]
    leaderships: Sequence[Leadership]
    paused: Paused
    quarantined: Sequence[Quarantined]
    next_due: Sequence[NextDue]
    running: Sequence[Running] = ()
    last_success_at: datetime | None = None
    data_updated_at: datetime | None = None

    def group_by_queue(self) -> list[Waiting]:
        """Return the live operations of each queue, including empty queues."""
        return [
            make_waiting(queue, None, (b for b in self.backlog if b.queue is queue))
            for queue in Queue
        ]

    def group_by_app(self) -> list[Waiting]:
        """Return the live operations of each app and queue, longest waiting first."""
        groups: dict[tuple[str, Queue], list[Backlog]] = defaultdict(list)
        for each in self.backlog:
            groups[each.app, each.queue].append(each)
        found = [make_waiting(queue, app, g) for (app, queue), g in groups.items()]
        # Groups in which nothing waits come last.
        return sorted(found, key=lambda each: each.since or _NEVER)

    def find_takers(self, queue: Queue) -> list[Seen]:
        """Return the living workers that take from *queue*."""
        return find_takers(self.processes, queue)

    def as_json(self) -> StatusJson:
        """Return the documented object; keys are only added."""
        by_queue = self.group_by_queue()
        return {
            "now": self.now,
            "leader": None if self.leader is None else _make_leader_json(self.leader),
            "last_tick_at": self.last_tick_at,
            "tick_age_s": find_age_s(self.now, self.last_tick_at),
            "lag_s": find_age_s(self.now, find_oldest(self.backlog)) or 0.0,
            "send_failure": _make_failure_json(self.send_failure),
            "backlog": {
                each.queue.value: {
                    state.value: count for state, count in each.counts.items()
                }
                for each in by_queue
            },
            "quarantined": [each.as_json() for each in self.quarantined],
            "paused": self.paused.as_json(),
            "next_due": [each.as_json() for each in self.next_due],
            "queues": {
                each.queue.value: self._make_queue_json(each) for each in by_queue
            },
            "backlog_by_app": [self._make_backlog_json(each) for each in self.backlog],
            "running": [each.as_json() for each in self.running],
            "last_success_at": self.last_success_at,
            "data_updated_at": self.data_updated_at,
            "last_hour": [make_trouble_json(each) for each in self.troubles],
            "uncertain_mails": self.uncertain,
            "processes": [make_process_json(each) for each in self.processes],
            "leaderships": [_make_leadership_json(each) for each in self.leaderships],
        }

    def _make_queue_json(self, waiting: Waiting) -> QueueJson:
        takers = self.find_takers(waiting.queue)
        return {
            "workers": len(takers),
            "slots": sum(each.process.concurrency or 0 for each in takers),
            "waiting_since": waiting.since,
            "oldest_s": find_age_s(self.now, waiting.since),
        }

    def _make_backlog_json(self, backlog: Backlog) -> BacklogJson:
        return {
            "app": backlog.app,
            "queue": backlog.queue,
            "state": backlog.state,
            "count": backlog.count,
            "waiting_since": backlog.waiting_since,
            "oldest_s": find_age_s(self.now, backlog.waiting_since),
        }


def fetch_status(connection: sa.Connection) -> Status:
    """Return the state of the installation."""
    return Status(
        now=read_clock(connection),
        leader=fetch_holder(connection),
        last_tick_at=get_last_tick_at(connection),
        send_failure=get_send_failure(connection),
        backlog=fetch_backlog(connection),
        troubles=fetch_troubles(connection),
        uncertain=count_uncertain(connection),
        processes=fetch_processes(connection),
        leaderships=fetch_leaderships(connection, limit=_PAST),
        paused=Paused(*fetch_pauses(connection), fetch_queue_pauses(connection)),
        quarantined=fetch_quarantined(connection),
        next_due=fetch_next_due(connection, limit=_NEXT),
        running=fetch_running(connection, limit=_RUNNING),
        last_success_at=fetch_last_success(connection),
        data_updated_at=fetch_data_updated(connection),
    )


def _make_leader_json(holder: Holder) -> LeaderJson:
    return {
        "host": holder.hostname,
        "pid": holder.pid,
        "since": holder.acquired_at,
        "fence": holder.fence,
        "heartbeat_at": holder.heartbeat_at,
        "heartbeat_age_s": round(holder.heartbeat_age.total_seconds(), 3),
        "expires_at": holder.expires_at,
        "stale": holder.is_stale,
    }


def _make_failure_json(failure: SendFailure | None) -> SendFailureJson | None:
    return None if failure is None else {"since": failure.since, "error": failure.error}


def make_trouble_json(trouble: Trouble) -> TroubleJson:
    """Return the documented object; keys are only added."""
    return {
        "app": trouble.app,
        "state": trouble.state,
        "reason": trouble.reason,
        "count": trouble.count,
        "latest_at": trouble.latest_at,
    }


def _make_leadership_json(leadership: Leadership) -> LeadershipJson:
    return {
        "fence": leadership.fence,
        "host": leadership.hostname,
        "pid": leadership.pid,
        "since": leadership.acquired_at,
        "released_at": leadership.released_at,
    }
