"""
The state of the installation, or of one small app, at this moment, for every face.

Those who may know one small app alone are told of the installation only what concerns
every app: whether somebody leads, when the last tick was, how many workers there are.
No host is named.
"""

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
    fetch_leaderships,
    get_last_tick_at,
    get_send_failure,
)
from actions.lookup import fetch_app
from actions.read_actions import Quarantined, QuarantinedJson, fetch_quarantined
from actions.read_rules import NextDue, NextDueJson, fetch_next_due
from models.database.engine import read_clock
from models.operation_state import OperationState, Queue
from operations.fleet.processes import Seen
from operations.running.pace import Working, WorkingJson, fetch_working
from overview.apps.touched import Touched, TouchedJson, fetch_touched
from overview.doctor.checks import FOR_APPS, NEAR
from overview.doctor.examine import look
from overview.doctor.finding import Finding, FindingJson, Health, View, find_worst
from overview.installation.figures import (
    Backlog,
    Running,
    RunningJson,
    Trouble,
    count_uncertain,
    fetch_data_updated,
    fetch_last_success,
    fetch_running,
    fetch_troubles,
    find_oldest,
    find_takers,
)
from overview.installation.paused import AppPausedJson, Paused, PausedJson, fetch_paused
from overview.installation.queues import (
    Waiting,
    find_age_s,
    make_waiting,
)
from overview.installation.workers import ProcessJson, make_process_json
from settings import Settings

#: The most actions that are listed as due next, and those of one app.
_NEXT = 5
_NEXT_OF_APP = 10

#: The most leaderships that are listed.
_PAST = 10

#: The most running operations that are listed.
_RUNNING = 20

#: Sorts after every instant since which something waits.
_NEVER = datetime.max.replace(tzinfo=UTC)


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


class LeadershipJson(TypedDict):
    """Who led; ``released_at`` null: it still does, or let its lease run out."""

    fence: int
    host: str
    pid: int
    since: datetime
    released_at: datetime | None


class _StatusJson(TypedDict):
    now: datetime
    health: Health
    findings: list[FindingJson]
    last_tick_at: datetime | None
    tick_age_s: float | None
    lag_s: float
    backlog: dict[str, dict[str, int]]
    quarantined: list[QuarantinedJson]
    next_due: list[NextDueJson]
    queues: dict[str, QueueJson]
    running: list[RunningJson]
    last_success_at: datetime | None
    data_updated_at: datetime | None
    last_hour: list[Trouble]
    uncertain_mails: int


class StatusJson(_StatusJson):
    """
    The state of the installation.

    ``findings`` are what doctor finds without leaving the database, and ``health`` the
    worst of them. ``tick_age_s`` is the age of the last tick; ``lag_s`` how long the
    oldest operation that no worker has taken waits (0: none does). ``backlog`` is the
    count of live operations by queue and state. ``last_success_at`` is looked for among
    the latest thousand operations; ``data_updated_at`` is when data were last
    published.
    """

    leader: LeaderJson | None
    send_failure: SendFailure | None
    paused: PausedJson
    backlog_by_app: list[BacklogJson]
    processes: list[ProcessJson]
    leaderships: list[LeadershipJson]


class AppStatusJson(_StatusJson):
    """
    The state of a small app.

    As that of the installation, as far as it concerns the app. ``is_led`` tells whether
    a scheduler leads; ``working`` is its heavy operation that runs, such as one that
    publishes; ``touched`` is what the latest refresh and publish that succeeded
    touched, by step.
    """

    app: str
    is_led: bool
    working: WorkingJson | None
    touched: dict[str, TouchedJson]
    paused: AppPausedJson


@dataclass(frozen=True, slots=True)
class Status:
    """
    The state of the installation, or of a small app; times are aware UTC.

    Args:
        now: By the database's clock.
        app: The only small app that it is about. None: the installation.
        findings: What is wrong, and what is well.
        leader: None if the lease was released, or never taken.
        last_tick_at: None if there has never been a tick.
        send_failure: None if the leader can send, or has not tried.
        backlog: The live operations, by queue, app and state.
        troubles: What went wrong within the last hour.
        uncertain: How many mails an operator has to decide about, however old.
        processes: Schedulers and workers, including those that ended without signing
            off.
        leaderships: Who has led, the latest first, at most ten; empty of an app.
        paused: What is paused.
        quarantined: Actions that could not be read.
        next_due: The actions that are due next, at most five; ten of an app.
        running: Operations that workers run, the longest running first, at most twenty.
        last_success_at: When an operation last succeeded, among the latest thousand.
        data_updated_at: When data were last published. None: never.
        working: The heavy operation of the app that runs. None: none does.
        touched: What the latest refresh and publish of the app touched, by step.
    """

    now: datetime
    app: str | None
    findings: Sequence[Finding]
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
    working: Working | None = None
    touched: Mapping[str, Touched] = field(default_factory=dict)

    @property
    def health(self) -> Health:
        """The worst of what was found."""
        return find_worst(self.findings)

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
        return {
            **self._as_any_json(),
            "leader": None if self.leader is None else _make_leader_json(self.leader),
            "send_failure": self.send_failure,
            "paused": self.paused.as_json(),
            "backlog_by_app": [self._make_backlog_json(each) for each in self.backlog],
            "processes": [make_process_json(each) for each in self.processes],
            "leaderships": [_make_leadership_json(each) for each in self.leaderships],
        }

    def as_app_json(self) -> AppStatusJson:
        """Return the documented object of an app; keys are only added."""
        assert self.app is not None  # whoever calls this has asked for one
        return {
            **self._as_any_json(),
            "app": self.app,
            "is_led": self.leader is not None and not self.leader.is_stale,
            "working": None if self.working is None else self.working.as_json(),
            "touched": {step: each.as_json() for step, each in self.touched.items()},
            "paused": self.paused.as_app_json(self.app),
        }

    def _as_any_json(self) -> _StatusJson:
        by_queue = self.group_by_queue()
        return {
            "now": self.now,
            "health": self.health,
            "findings": [each.as_json() for each in self.findings],
            "last_tick_at": self.last_tick_at,
            "tick_age_s": find_age_s(self.now, self.last_tick_at),
            "lag_s": find_age_s(self.now, find_oldest(self.backlog)) or 0.0,
            "backlog": {
                each.queue.value: {
                    state.value: count for state, count in each.counts.items()
                }
                for each in by_queue
            },
            "quarantined": [each.as_json() for each in self.quarantined],
            "next_due": [each.as_json() for each in self.next_due],
            "queues": {
                each.queue.value: self._make_queue_json(each) for each in by_queue
            },
            "running": [each.as_json() for each in self.running],
            "last_success_at": self.last_success_at,
            "data_updated_at": self.data_updated_at,
            "last_hour": list(self.troubles),
            "uncertain_mails": self.uncertain,
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


def fetch_status(
    connection: sa.Connection, settings: Settings, *, app: str | None = None
) -> Status:
    """
    Return the state of the installation, or of the small app *app*.

    Raises:
        NotFoundError: There is no such app.
    """
    if app is not None:
        fetch_app(connection, app)
    view = View(connection, settings, read_clock(connection), app)
    return Status(
        now=view.now,
        app=app,
        findings=list(look(view, NEAR if app is None else FOR_APPS)),
        leader=view.holder,
        last_tick_at=get_last_tick_at(connection),
        send_failure=get_send_failure(connection),
        backlog=view.backlog,
        troubles=fetch_troubles(connection, app=app),
        uncertain=count_uncertain(connection, app=app),
        processes=view.seen,
        leaderships=[] if app else fetch_leaderships(connection, limit=_PAST),
        paused=fetch_paused(connection, app),
        quarantined=fetch_quarantined(connection, app=app),
        next_due=fetch_next_due(
            connection, limit=_NEXT_OF_APP if app else _NEXT, app=app
        ),
        running=fetch_running(connection, limit=_RUNNING, app=app),
        last_success_at=fetch_last_success(connection, app=app),
        data_updated_at=fetch_data_updated(connection, app=app),
        working=fetch_working(connection, app).get(app) if app else None,
        touched=fetch_touched(connection, app) if app else {},
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


def _make_leadership_json(leadership: Leadership) -> LeadershipJson:
    return {
        "fence": leadership.fence,
        "host": leadership.hostname,
        "pid": leadership.pid,
        "since": leadership.acquired_at,
        "released_at": leadership.released_at,
    }
