"""Whether the installation lives: leader, tick, queues, workers, pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.leader import get_last_tick_at, get_send_failure
from actions.lookup import SYSTEM_APP, fetch_app
from actions.pausing.pause_state import (
    Pause,
    PauseJson,
    fetch_app_pauses,
    fetch_pauses,
)
from actions.read_actions import fetch_quarantined
from models.database.engine import read_clock
from models.database.tables import IDLE_ACTIONS, scheduled_actions
from models.operation_state import OperationState, Queue
from operations.fleet.processes import Role, Seen
from overview.doctor.checks import FOR_APPS, ON_NOW
from overview.doctor.checks.hosts import find_silent
from overview.doctor.examine import look
from overview.doctor.finding import Finding, View
from overview.installation.figures import find_oldest, find_takers
from settings import Settings

_kept = scheduled_actions.c


class LeaderNowJson(TypedDict):
    """Who leads; ``host`` and ``pid`` only for those who see all small apps."""

    host: str | None
    pid: int | None
    fence: int
    since: datetime


class QueueNowJson(TypedDict):
    """
    A queue; ``waiting`` operations whose time has come, ``oldest_since`` when the
    oldest of them was to be sent.
    """

    waiting: int
    running: int
    oldest_since: datetime | None
    workers: int
    slots: int


class PulseJson(TypedDict):
    """
    Whether the installation lives.

    ``leader`` null: nobody leads; since when, ``unled_since``, if that is known.
    ``paused`` is the pause of the installation, or of the app that was asked for.
    """

    leader: LeaderNowJson | None
    unled_since: datetime | None
    last_tick_at: datetime | None
    send_failing_since: datetime | None
    queues: dict[str, QueueNowJson]
    workers: int
    silent_workers: int
    paused: PauseJson | None
    paused_actions: int
    quarantined: int
    has_actions: bool


@dataclass(frozen=True, slots=True)
class LeaderNow:
    """Who leads; *host* and *pid* are None for those who see one small app."""

    host: str | None
    pid: int | None
    fence: int
    since: datetime


@dataclass(frozen=True, slots=True)
class QueueNow:
    """
    What waits in a queue.

    Args:
        waiting: Operations that no worker has taken and whose time has come.
        since: When the oldest of them was to be sent, aware UTC. None: none waits.
        running: How many run.
        workers: How many living workers take from it.
        slots: How many operations these run at a time.
    """

    queue: Queue
    waiting: int
    since: datetime | None
    running: int
    workers: int
    slots: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """
    Whether the installation lives; times are aware UTC, by the database's clock.

    Args:
        leader: None: nobody leads.
        unled_since: The last sign of who led. None: somebody leads, or never did.
        last_tick_at: None: there was none.
        alive: How many workers are alive.
        silent: Those that ended without signing off a short while ago; none for those
            who see one small app.
        paused: The pause of the installation, or of the small app.
        has_actions: Whether there is any action but the scheduler's own.
        findings: What the looks of Now found.
    """

    now: datetime
    leader: LeaderNow | None
    unled_since: datetime | None
    last_tick_at: datetime | None
    send_failing_since: datetime | None
    queues: Sequence[QueueNow]
    alive: int
    silent: Sequence[Seen]
    paused: Pause | None
    paused_actions: int
    quarantined: int
    has_actions: bool
    findings: Sequence[Finding]

    def as_json(self) -> PulseJson:
        """Return the documented object; keys are only added."""
        leader = self.leader
        return {
            "leader": None
            if leader is None
            else {
                "host": leader.host,
                "pid": leader.pid,
                "fence": leader.fence,
                "since": leader.since,
            },
            "unled_since": self.unled_since,
            "last_tick_at": self.last_tick_at,
            "send_failing_since": self.send_failing_since,
            "queues": {
                each.queue.value: {
                    "waiting": each.waiting,
                    "running": each.running,
                    "oldest_since": each.since,
                    "workers": each.workers,
                    "slots": each.slots,
                }
                for each in self.queues
            },
            "workers": self.alive,
            "silent_workers": len(self.silent),
            "paused": None if self.paused is None else self.paused.as_json(),
            "paused_actions": self.paused_actions,
            "quarantined": self.quarantined,
            "has_actions": self.has_actions,
        }


def fetch_pulse(
    connection: sa.Connection, settings: Settings, *, app: str | None = None
) -> Pulse:
    """
    Return whether the installation lives, as far as it concerns *app*; None: all.

    Raises:
        NotFoundError: There is no such small app.
    """
    if app is not None:
        fetch_app(connection, app)
    view = View(connection, settings, read_clock(connection), app)
    findings = list(look(view, ON_NOW if app is None else FOR_APPS))
    holder = view.holder
    is_led = holder is not None and not holder.is_stale
    failure = get_send_failure(connection)
    workers = [each for each in view.seen if each.process.role is Role.WORKER]
    paused, paused_actions = _fetch_pause(connection, app)
    return Pulse(
        now=view.now,
        leader=LeaderNow(
            holder.hostname if app is None else None,
            holder.pid if app is None else None,
            holder.fence,
            holder.acquired_at,
        )
        if holder is not None and is_led
        else None,
        unled_since=holder.heartbeat_at if holder is not None and not is_led else None,
        last_tick_at=get_last_tick_at(connection),
        send_failing_since=None if failure is None else failure.since,
        queues=[_make_queue(queue, view) for queue in Queue],
        alive=sum(each.is_alive for each in workers),
        silent=find_silent(workers) if app is None else [],
        paused=paused,
        paused_actions=paused_actions,
        quarantined=len(fetch_quarantined(connection, app=app)),
        has_actions=_has_actions(connection, app),
        findings=findings,
    )


def _fetch_pause(
    connection: sa.Connection, app: str | None
) -> tuple[Pause | None, int]:
    if app is None:
        whole, _apps, actions = fetch_pauses(connection)
        return whole, actions
    whole, own, actions = fetch_app_pauses(connection, app)
    return (whole and whole.seen_by(app)) or own, actions


def _make_queue(queue: Queue, view: View) -> QueueNow:
    ours = [each for each in view.backlog if each.queue is queue]
    takers = find_takers(view.seen, queue)
    return QueueNow(
        queue,
        waiting=sum(each.waiting for each in ours),
        since=find_oldest(ours),
        running=sum(e.count for e in ours if e.state is OperationState.RUNNING),
        workers=len(takers),
        slots=sum(each.process.concurrency or 0 for each in takers),
    )


def _has_actions(connection: sa.Connection, app: str | None) -> bool:
    found = sa.exists().where(
        _kept.deleted_at.is_(None),
        _kept.app != SYSTEM_APP if app is None else _kept.app == app,
    )
    return bool(connection.execute(sa.select(found)).scalar())


def count_scheduled(connection: sa.Connection, *, app: str | None = None) -> int:
    """
    Return how many actions (of *app*) run, so that a pause would stop them.

    An index alone knows how many there are; of the few that are idle, all are read.
    """
    alive: list[sa.ColumnElement[bool]] = [_kept.deleted_at.is_(None)]
    if app is not None:
        alive.append(_kept.app == app)
    count = sa.select(sa.func.count()).select_from(scheduled_actions).where(*alive)
    rests = sa.or_(~_kept.active, _kept.paused_at.is_not(None))
    resting = count.where(IDLE_ACTIONS.of(scheduled_actions.name), rests)
    query = sa.select(count.scalar_subquery() - resting.scalar_subquery())
    return int(connection.execute(query).scalar_one())
