"""
The state of one small app, for those who may know nothing of the others.

Of the installation it says only what concerns every app: whether somebody leads, when
the last tick was, and how many workers there are. It names no host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.leader import fetch_leader, get_last_tick_at
from actions.lookup import fetch_app
from actions.pausing.pause_state import Pause, PauseJson, fetch_app_pauses
from actions.pausing.queues import fetch_queue_pauses
from actions.read_actions import Quarantined, QuarantinedJson, fetch_quarantined
from actions.read_rules import NextDue, NextDueJson, fetch_next_due
from models.database.engine import read_clock
from models.operation_state import Queue
from operations.fleet.processes import fetch_processes
from operations.running.estimates import Working, WorkingJson, fetch_working
from overview.apps.touched import Touched, TouchedJson, fetch_touched
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
from overview.installation.queues import find_age_s, make_waiting
from overview.installation.status import QueueJson, TroubleJson, make_trouble_json

#: The most actions that are listed as due next.
_NEXT = 10

#: The most running operations that are listed.
_RUNNING = 20


class AppPausedJson(TypedDict):
    """What is paused: the installation, the app, its actions (a count), queues."""

    all: PauseJson | None
    app: PauseJson | None
    actions: int
    queues: dict[str, PauseJson]


class AppStatusJson(TypedDict):
    """
    The state of a small app.

    ``is_led`` tells whether a scheduler leads; ``tick_age_s`` the age of its last tick.
    ``lag_s`` is how long the oldest operation of the app that no worker has taken waits
    (0: none does). ``backlog`` is the count of its live operations by queue and state,
    ``working`` its heavy operation that runs, such as one that publishes; ``touched``
    is what the latest refresh and publish that succeeded touched, by step.
    """

    now: datetime
    app: str
    is_led: bool
    last_tick_at: datetime | None
    tick_age_s: float | None
    lag_s: float
    backlog: dict[str, dict[str, int]]
    queues: dict[str, QueueJson]
    running: list[RunningJson]
    working: WorkingJson | None
    last_success_at: datetime | None
    data_updated_at: datetime | None
    touched: dict[str, TouchedJson]
    last_hour: list[TroubleJson]
    uncertain_mails: int
    quarantined: list[QuarantinedJson]
    paused: AppPausedJson
    next_due: list[NextDueJson]


@dataclass(frozen=True, slots=True)
class AppStatus:
    """
    The state of a small app; times are aware UTC, by the database's clock.

    Args:
        takers: How many living workers take from each queue, and how many operations
            these run at a time.

        paused: The pause of the installation, that of the app, and how many of its
            actions are paused.

        paused_queues: The pauses of queues, of which nothing is sent.
    """

    now: datetime
    app: str
    is_led: bool
    last_tick_at: datetime | None
    backlog: Sequence[Backlog]
    takers: dict[Queue, tuple[int, int]]
    running: Sequence[Running]
    working: Working | None
    troubles: Sequence[Trouble]
    uncertain: int
    quarantined: Sequence[Quarantined]
    paused: tuple[Pause | None, Pause | None, int]
    next_due: Sequence[NextDue]
    last_success_at: datetime | None
    data_updated_at: datetime | None
    paused_queues: Mapping[Queue, Pause] = field(default_factory=dict)
    touched: Mapping[str, Touched] = field(default_factory=dict)

    def as_json(self) -> AppStatusJson:
        """Return the documented object; keys are only added."""
        whole, own, actions = self.paused
        waiting = [
            make_waiting(queue, self.app, (b for b in self.backlog if b.queue is queue))
            for queue in Queue
        ]
        return {
            "now": self.now,
            "app": self.app,
            "is_led": self.is_led,
            "last_tick_at": self.last_tick_at,
            "tick_age_s": find_age_s(self.now, self.last_tick_at),
            "lag_s": find_age_s(self.now, find_oldest(self.backlog)) or 0.0,
            "backlog": {
                each.queue.value: {
                    state.value: count for state, count in each.counts.items()
                }
                for each in waiting
            },
            "queues": {
                each.queue.value: {
                    "workers": self.takers[each.queue][0],
                    "slots": self.takers[each.queue][1],
                    "waiting_since": each.since,
                    "oldest_s": find_age_s(self.now, each.since),
                }
                for each in waiting
            },
            "running": [each.as_json() for each in self.running],
            "working": None if self.working is None else self.working.as_json(),
            "last_success_at": self.last_success_at,
            "data_updated_at": self.data_updated_at,
            "touched": {step: each.as_json() for step, each in self.touched.items()},
            "last_hour": [make_trouble_json(each) for each in self.troubles],
            "uncertain_mails": self.uncertain,
            "quarantined": [each.as_json() for each in self.quarantined],
            "paused": {
                "all": None if whole is None else whole.as_json(),
                "app": None if own is None else own.as_json(),
                "actions": actions,
                "queues": {
                    queue.value: each.as_json()
                    for queue, each in self.paused_queues.items()
                },
            },
            "next_due": [each.as_json() for each in self.next_due],
        }


def fetch_app_status(connection: sa.Connection, app: str) -> AppStatus:
    """
    Return the state of the small app *app*.

    Raises:
        NotFoundError: There is no such app.
    """
    fetch_app(connection, app)
    processes = fetch_processes(connection)
    takers = {queue: find_takers(processes, queue) for queue in Queue}
    whole, own, actions = fetch_app_pauses(connection, app)
    return AppStatus(
        now=read_clock(connection),
        app=app,
        is_led=fetch_leader(connection) is not None,
        last_tick_at=get_last_tick_at(connection),
        backlog=fetch_backlog(connection, app=app),
        takers={
            queue: (len(found), sum(each.process.concurrency or 0 for each in found))
            for queue, found in takers.items()
        },
        running=fetch_running(connection, limit=_RUNNING, app=app),
        working=fetch_working(connection, app).get(app),
        troubles=fetch_troubles(connection, app=app),
        uncertain=count_uncertain(connection, app=app),
        quarantined=fetch_quarantined(connection, app=app),
        paused=(whole and whole.seen_by(app), own, actions),
        next_due=fetch_next_due(connection, limit=_NEXT, app=app),
        last_success_at=fetch_last_success(connection, app=app),
        data_updated_at=fetch_data_updated(connection, app=app),
        touched=fetch_touched(connection, app),
        paused_queues={
            queue: each.seen_by(app)
            for queue, each in fetch_queue_pauses(connection).items()
        },
    )
