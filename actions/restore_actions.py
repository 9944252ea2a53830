"""
What becomes of scheduled actions when the database is restored from a backup.

Occurrences between the backup and now may have run, but the record of that is lost. So
they are recorded as missed, in one row for each action, and none of them runs, whatever
``lookback`` and ``catch_up`` say. Then each action takes effect anew, from now on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.decide import decide
from actions.due_rows import advance, fetch_due, fetch_events, fetch_turns
from actions.lease import LEASE_NAME, ensure_lease, write_lease
from actions.posting.revisions import change_actions, lock_actions
from models.database.engine import db_now
from models.database.tables import (
    leases,
    processes,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.decision import Decision, NewOperation
from models.operation_state import OperationState
from models.revision import Change

#: Added to the fence: more leaderships than can have begun between a backup and now, so
#: that no number stands for two of them in logs or rows.
FENCE_STEP = 1000

#: A process whose sign of life is younger is alive; it renews its row far more often.
_LIVES = timedelta(minutes=1)

_CHUNK = 500

#: Of an action that cannot be decided, now or by the first tick. What may pass until
#: then, such as want of memory, is none of these.
_BAD = (ValueError, ArithmeticError, LookupError, TypeError)


def lock_lease(connection: sa.Connection) -> None:
    """Keep every scheduler from leading until the commit."""
    ensure_lease(connection)
    connection.execute(
        sa.select(leases.c.name).where(leases.c.name == LEASE_NAME).with_for_update()
    )


def void_lease(connection: sa.Connection) -> None:
    """End every leadership that there may be: what such a leader writes is void."""
    write_lease(
        connection,
        holder=None,
        expires_at=db_now(),
        fence=leases.c.fence + FENCE_STEP,
        send_failing_since=None,
        send_error=None,
    )


def fetch_living(connection: sa.Connection) -> list[str]:
    """Return role, name and host of all processes that are alive, in words."""
    kept = processes.c
    rows = connection.execute(
        sa.select(kept.role, kept.name, kept.hostname)
        .where(kept.heartbeat_at > db_now(-_LIVES))
        .order_by(kept.role, kept.name)
    )
    return [f"{row.role} {row.name} on {row.hostname}" for row in rows]


def get_last_beat_at(connection: sa.Connection) -> datetime | None:
    """Return the last sign of life of any scheduler or worker; None: there is none."""
    beats = leases.c.heartbeat_at, leases.c.last_tick_at, processes.c.heartbeat_at
    latest = (sa.select(sa.func.max(each)).scalar_subquery() for each in beats)
    found = connection.execute(sa.select(*latest)).one()
    return max((at for at in found if at is not None), default=None)


def decide_as_missed(
    connection: sa.Connection, *, now: datetime, reason: str
) -> list[NewOperation]:
    """
    Decide all that is due by *now* as missed, and advance the actions beyond it.

    An action that cannot be decided is left to the first tick, which puts it into
    quarantine.

    Args:
        connection: In a transaction, while no scheduler leads.
        now: Aware UTC.
        reason: Begins with ``Reason.RESTORED``.

    Returns:
        The operations to record, all missed: one for each action, and one for each
        event that was recorded late.
    """
    found: list[NewOperation] = []
    uids = fetch_turns(connection, now=now)
    for start in range(0, len(uids), _CHUNK):
        decisions = _decide(connection, uids[start : start + _CHUNK], now)
        moved = advance(connection, decisions) if decisions else set()
        found += [
            row._replace(reason=reason)
            for decision in decisions
            if decision.action_uid in moved
            for row in decision.operations
        ]
    assert all(row.state is OperationState.MISSED for row in found)  # none may run
    return found


def _decide(
    connection: sa.Connection, uids: Sequence[str], now: datetime
) -> list[Decision]:
    due = [
        action._replace(catch_up="none")
        for action in fetch_due(connection, uids, now=now)
    ]
    waiting = [action for action in due if action.event is not None]
    events, following = fetch_events(connection, waiting, now=now)
    decisions = []
    no_time = timedelta(0)  # every occurrence is older than this look-back
    for action in due:
        known = action, events.get(action.uid, ()), following.get(action.uid)
        with suppress(*_BAD):
            decisions.append(decide(*known, now=now, lookback=no_time, memo={}))
    return decisions


def start_anew(
    connection: sa.Connection, *, as_of: datetime, now: datetime, by: str | None
) -> int:
    """
    Let every running action take effect anew from *now* on, as a new revision.

    Actions that are paused, inactive or in quarantine take effect anew when that ends.

    Args:
        connection: After ``decide_as_missed``, in the same transaction.
        as_of: Aware UTC. Actions that were restarted later are skipped: an earlier
            call has done it.
        now: Aware UTC.
        by: Who restored the backup.

    Returns:
        How many actions were restarted.
    """
    kept, revision = scheduled_actions.c, scheduled_action_revisions.c
    is_restarted = sa.exists().where(
        revision.uid == kept.uid,
        revision.change == Change.RESTORED,
        revision.effective_from > as_of,
    )
    is_running = kept.active, kept.paused_at.is_(None), kept.quarantined_at.is_(None)
    found = lock_actions(connection, *is_running, ~is_restarted)
    values: dict[str, object] = {"effective_from": now, "updated_at": now}
    changes, note = [(row, values) for row in found], f"as of {as_of:%F %T}Z"
    change_actions(connection, changes, Change.RESTORED, by=by, note=note)
    return len(found)
