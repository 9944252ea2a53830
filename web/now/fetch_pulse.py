"""Whether the installation lives: leader, tick, queues, workers, pauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from actions.lease import Holder
from actions.lookup import SYSTEM_APP, fetch_app
from actions.pausing.pause_state import Pause
from models.database.engine import read_clock
from models.database.lists import belongs_to
from models.database.tables import scheduled_actions
from models.operation_state import Queue
from operations.fleet.processes import ProcessRole, Seen
from overview.doctor.checks import FOR_APPS, ON_NOW
from overview.doctor.checks.hosts import find_silent
from overview.doctor.examine import look
from overview.doctor.finding import Finding, View
from overview.installation.figures import Lag, QueueNow
from settings import Settings

_action = scheduled_actions.c


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
    leader: Holder | None
    unled_since: datetime | None
    last_tick_at: datetime | None
    lag: Lag
    queues: Mapping[Queue, QueueNow]
    alive: int
    silent: Sequence[Seen]
    paused: Pause | None
    has_actions: bool
    findings: Sequence[Finding]


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
    workers = [each for each in view.seen if each.process.role is ProcessRole.WORKER]
    return Pulse(
        now=view.now,
        leader=holder if is_led else None,
        unled_since=holder.heartbeat_at if holder is not None and not is_led else None,
        last_tick_at=view.ticked_at,
        lag=view.lag,
        queues=view.queues,
        alive=sum(each.is_alive for each in workers),
        silent=find_silent(workers) if app is None else [],
        paused=view.pause,
        has_actions=_has_actions(connection, app),
        findings=findings,
    )


def _has_actions(connection: sa.Connection, app: str | None) -> bool:
    found = sa.exists().where(
        _action.deleted_at.is_(None),
        _action.app != SYSTEM_APP if app is None else _action.app == app,
    )
    return bool(connection.execute(sa.select(found)).scalar())


def count_scheduled(connection: sa.Connection, *, app: str | None = None) -> int:
    """Return how many actions (of *app*) run, so that a pause would stop them."""
    runs = (
        *(_action.deleted_at.is_(None), _action.active, _action.paused_at.is_(None)),
        *(_action.app != SYSTEM_APP, *belongs_to(app, _action.app)),
    )
    count = sa.select(sa.func.count()).select_from(scheduled_actions).where(*runs)
    return int(connection.execute(count).scalar_one())
