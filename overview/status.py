"""How the installation is at this moment, for every face: who leads, what waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.leader import (
    Holder,
    Leadership,
    SendFailure,
    fetch_holder,
    fetch_leaderships,
    get_last_tick_at,
    get_send_failure,
)
from actions.listing import fetch_next_due, fetch_quarantined
from actions.pausing.pause import Pause, fetch_pauses
from models.database.engine import read_clock
from operations.fleet.processes import Seen, fetch_processes
from overview.figures import (
    Backlog,
    Trouble,
    count_uncertain,
    fetch_backlog,
    fetch_troubles,
)

#: Actions that are named as due next.
_NEXT = 5

#: Leaderships that are named.
_PAST = 10


@dataclass(frozen=True, slots=True)
class Paused:
    """
    What rests on request.

    Args:
        whole: The pause of all of the installation; None: it is not paused.

        apps: The pauses of small apps, by uid.

        actions: How many actions rest, for whatever pause.
    """

    whole: Pause | None
    apps: Mapping[str, Pause]
    actions: int


@dataclass(frozen=True, slots=True)
class Status:
    """
    How the installation is; times are aware UTC, of the database's clock.

    Args:
        leader: None if the lease was released, or never taken.

        last_tick_at: None if there never was one.

        send_failure: None if the leader can send, or never tried.

        backlog: What is not final, by queue, app and state.

        troubles: What went wrong within the last hour.

        uncertain: Mails that an operator has to decide on, however old.

        processes: Schedulers and workers, also those that ended without a word.

        leaderships: Who led, the latest first, ten at most.

        paused: What rests on request.

        quarantined: Actions that could not be read.

        next_due: Actions that are due next, five at most.
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
    quarantined: Sequence[sa.Row[Any]]
    next_due: Sequence[sa.Row[Any]]


def fetch_status(connection: sa.Connection) -> Status:
    """Return how the installation is."""
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
        paused=Paused(*fetch_pauses(connection)),
        quarantined=fetch_quarantined(connection),
        next_due=fetch_next_due(connection, limit=_NEXT),
    )
