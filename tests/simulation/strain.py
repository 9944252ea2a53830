"""
A world in which nothing fails, and all that a leader does beside its ticks is much.

The database answers slowly, and parts are small, so that a few hundred rows are minutes
of work: operations that wait, lost messages, failures to report, pauses that end and
one that is written, a clock that was set back, a zone that changed, and events.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import partial, partialmethod
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa

import actions.pausing.targets
import dispatch.due_pauses
import dispatch.upkeep
from actions.lease import LEASE_NAME
from actions.pausing.targets import pause_target
from actions.posting.post import post_action
from actions.user_events import NewEvent, record_events
from dispatch.clocks import ZoneAdopter, follow_clock_set_back
from models.database.engine import writing
from models.database.tables import leases, operations, scheduled_actions, zones
from models.decision import NewOperation
from models.door.documents import read_action_object
from models.fields.zone import read_zone_data
from models.occurrence import make_manual_id
from models.operation_state import Overlap, Queue, Trigger
from models.requests.notes import PauseModel
from operations.record import record
from tests.simulation.scenario import APP, OTHER_APP, PEOPLE, SIGNUP

#: Rows of a part, and of each kind of work.
PART = 5
MANY = 60

_HOUR = timedelta(hours=1)

#: When what is strained begins to end, after the start.
_UNTIL = timedelta(seconds=90)


@contextmanager
def replacing(*replacements: tuple[Any, str, Any]) -> Iterator[None]:
    """Put each value in the place of what its target has by that name."""
    with ExitStack() as stack:
        for target, name, value in replacements:
            stack.enter_context(patch.object(target, name, value))
        yield


def in_small_parts() -> AbstractContextManager[None]:
    """Let parts be of a few rows."""
    return replacing(
        (dispatch.due_pauses, "ENDED_AT_ONCE", PART),
        (actions.pausing.targets, "WRITTEN_AT_ONCE", PART),
        (
            *(dispatch.upkeep, "follow_clock_set_back"),
            partial(follow_clock_set_back, at_most=PART),
        ),
        (ZoneAdopter, "do_part", partialmethod(ZoneAdopter.do_part, at_most=PART)),
    )


def strain(engine: sa.Engine, start: datetime) -> None:
    """Give the leader to do; the clock shows *start*."""
    rest = {"operations": {"refresh": True}, "when": {"every": "P1D"}}
    paused = (f"rest-{n:03}" for n in range(MANY))
    with writing(engine) as connection:
        for uid in ("waiting", *paused):
            action = read_action_object({"uid": uid, "name": uid, **rest})
            app = APP if uid == "waiting" else OTHER_APP
            post_action(connection, app, action)
        connection.execute(
            sa.update(scheduled_actions)
            .where(scheduled_actions.c.uid.startswith("rest-0"))
            .values(paused_at=start, paused_until=start + _UNTIL)
        )
        pause_target(connection, OTHER_APP, PauseModel(until=start + 2 * _UNTIL))
        record(connection, [_make(n, start) for n in range(3 * MANY)])
        lost = {"state": "queued", "sent_at": start - 2 * _HOUR}
        failed = {"state": "failed", "finished_at": start}
        for number, values in enumerate((lost, failed)):
            ids = [_make(number * MANY + n, start).id for n in range(MANY)]
            connection.execute(
                sa.update(operations).where(operations.c.id.in_(ids)).values(values)
            )
        events = [
            NewEvent(APP, SIGNUP, PEOPLE[n % len(PEOPLE)], key=f"strain {n}")
            for n in range(PART)
        ]
        record_events(connection, events)
        connection.execute(
            sa.insert(leases).values(
                name=LEASE_NAME, fence=0, expires_at=start, last_tick_at=start + _HOUR
            )
        )
        connection.execute(sa.update(zones).values(data=read_zone_data("Asia/Tokyo")))


def _make(number: int, start: datetime) -> NewOperation:
    return NewOperation(
        id=make_manual_id("waiting", f"strain {number}"),
        action_uid="waiting",
        action_revision=1,
        app=APP,
        trigger=Trigger.MANUAL,
        triggered_by="somebody",
        occurrence=start,
        queue=Queue.QUICK,
        overlap=Overlap.ALLOW,
    )
