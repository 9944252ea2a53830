"""
The state of the installation, or of one small app, at this moment, for every face.

Those who may know one small app alone are told of the installation only what concerns
every app: whether somebody leads, when the last tick was, how many workers there are.
No host is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.lease import Holder, Leadership, SendFailure, fetch_leaderships
from actions.lookup import fetch_app
from actions.pausing.pause_state import Pause
from actions.read_actions import Quarantined, fetch_quarantined
from actions.read_rules import NextDue, fetch_next_due
from models.database.engine import read_clock
from models.operation_state import Queue
from operations.running.pace import Working, fetch_working
from overview.data import Touched, fetch_touched
from overview.doctor.checks import FOR_APPS, NEAR
from overview.doctor.examine import look
from overview.doctor.finding import Finding, Health, View, find_worst
from overview.installation import figures
from overview.installation.workers import ShownProcess, make_process
from settings import Settings

#: The most actions that are listed as due next, and those of one app.
_NEXT = 5
_NEXT_OF_APP = 10

#: The most leaderships that are listed.
_PAST = 10

#: The most running operations that are listed.
_RUNNING = 20


@dataclass(frozen=True, slots=True)
class ShownLeader:
    """The scheduler that has the lease; ``stale``: it let the lease run out."""

    host: str
    pid: int
    since: datetime
    fence: int
    heartbeat_at: datetime
    heartbeat_age_s: float
    expires_at: datetime
    stale: bool


@dataclass(frozen=True, slots=True)
class _AnyPaused:
    all: Pause | None
    actions: int
    queues: Mapping[Queue, Pause]


@dataclass(frozen=True, slots=True)
class Paused(_AnyPaused):
    """What is paused: the installation, apps by uid, queues, and how many actions."""

    apps: Mapping[str, Pause]


@dataclass(frozen=True, slots=True)
class AppPaused(_AnyPaused):
    """What is paused: the installation, the app, its actions (a count), queues."""

    app: Pause | None


@dataclass(frozen=True, slots=True)
class _AnyStatus:
    now: datetime
    health: Health
    findings: Sequence[Finding]
    last_tick_at: datetime | None
    tick_age_s: float | None
    lag_s: float
    backlog: Mapping[str, Mapping[str, int]]
    quarantined: Sequence[Quarantined]
    next_due: Sequence[NextDue]
    queues: Mapping[str, figures.QueueNow]
    running: Sequence[figures.Running]
    last_success_at: datetime | None
    data_updated_at: datetime | None
    last_hour: Sequence[figures.RecentTrouble]
    uncertain_mails: int


@dataclass(frozen=True, slots=True)
class Status(_AnyStatus):
    """
    The state of the installation.

    ``findings`` are what doctor finds without leaving the database, and ``health`` the
    worst of them. ``tick_age_s`` is the age of the last tick; ``lag_s`` how long the
    oldest operation that no worker has taken waits (0: none does). ``backlog`` is the
    count of live operations by queue and state. ``last_success_at`` is looked for among
    the latest thousand operations; ``data_updated_at`` is when data were last
    published. ``leader`` is null if the lease was released, or never taken.
    """

    leader: ShownLeader | None
    send_failure: SendFailure | None
    paused: Paused
    backlog_by_app: Sequence[figures.Backlog]
    processes: Sequence[ShownProcess]
    leaderships: Sequence[Leadership]


@dataclass(frozen=True, slots=True)
class AppStatus(_AnyStatus):
    """
    The state of a small app.

    As that of the installation, as far as it concerns the app. ``is_led`` tells whether
    a scheduler leads; ``working`` is its heavy operation that runs, such as one that
    publishes; ``touched`` is what the latest refresh and publish that succeeded
    touched, by step.
    """

    app: str
    is_led: bool
    working: Working | None
    touched: Mapping[str, Touched]
    paused: AppPaused


def fetch_status(connection: sa.Connection, settings: Settings) -> Status:
    """Return the state of the installation."""
    view = View(connection, settings, read_clock(connection))
    holder = view.holder
    whole, apps, actions = view.pauses
    return Status(
        **_fetch_any(view),
        leader=None if holder is None else _make_leader(holder),
        send_failure=view.send_failure,
        paused=Paused(whole, actions, view.queue_pauses, apps),
        backlog_by_app=view.backlog,
        processes=[make_process(each) for each in view.seen],
        leaderships=fetch_leaderships(connection, limit=_PAST),
    )


def fetch_app_status(
    connection: sa.Connection, settings: Settings, app: str
) -> AppStatus:
    """
    Return the state of the small app *app*.

    Raises:
        NotFoundError: There is no such app.
    """
    fetch_app(connection, app)
    view = View(connection, settings, read_clock(connection), app)
    whole, apps, actions = view.pauses
    return AppStatus(
        **_fetch_any(view),
        app=app,
        is_led=view.holder is not None and not view.holder.is_stale,
        working=fetch_working(connection, app).get(app),
        touched=fetch_touched(connection, app),
        paused=AppPaused(whole, actions, view.queue_pauses, apps.get(app)),
    )


def _fetch_any(view: View) -> dict[str, Any]:
    """Return what both kinds of state have, by the name of its field."""
    connection, app = view.connection, view.app
    findings = list(look(view, NEAR if app is None else FOR_APPS))
    return {
        "now": view.now,
        "health": find_worst(findings),
        "findings": findings,
        "last_tick_at": view.ticked_at,
        "tick_age_s": figures.find_age_s(view.now, view.ticked_at),
        "lag_s": figures.find_age_s(view.now, figures.find_oldest(view.backlog)) or 0.0,
        "backlog": {queue: each.counts for queue, each in view.queues.items()},
        "quarantined": fetch_quarantined(connection, app=app),
        "next_due": fetch_next_due(
            connection, limit=_NEXT_OF_APP if app else _NEXT, app=app
        ),
        "queues": view.queues,
        "running": figures.fetch_running(connection, limit=_RUNNING, app=app),
        "last_success_at": figures.fetch_last_success(connection, app),
        "data_updated_at": figures.fetch_data_updated(connection, app),
        "last_hour": view.troubles,
        "uncertain_mails": view.uncertain,
    }


def _make_leader(holder: Holder) -> ShownLeader:
    return ShownLeader(
        host=holder.hostname,
        pid=holder.pid,
        since=holder.acquired_at,
        fence=holder.fence,
        heartbeat_at=holder.heartbeat_at,
        heartbeat_age_s=round(holder.heartbeat_age.total_seconds(), 3),
        expires_at=holder.expires_at,
        stale=holder.is_stale,
    )
