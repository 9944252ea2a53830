"""
The scheduler's own scheduled action: prune old rows and files, every day.

It is an action like any other, in a small app of the scheduler's own, so it is listed,
explained and paused like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.due_action import DueAction
from actions.due_rows import fetch_due
from actions.lookup import SYSTEM_APP
from actions.posting.post import Posted, post_action
from actions.posting.revisions import SCHEDULER
from models.database.engine import reading, writing
from models.database.tables import scheduled_actions, small_apps
from models.door.documents import action_document
from models.operation import OperationModel
from models.scheduled_action import ScheduledActionModel
from models.when import CronModel

MAINTENANCE_UID = "minutehand-maintenance"


@dataclass(frozen=True, slots=True)
class ForeseenMaintenance:
    """
    What the maintenance action would become.

    Args:
        action: As it would be stored.
        created: False if it would replace an existing one.
        due: The action, if it would be due; otherwise empty.
    """

    action: ScheduledActionModel
    created: bool
    due: Sequence[DueAction]


def ensure_maintenance(
    engine: sa.Engine,
    *,
    at: time,
    timezone: str,
    enabled: bool,
    check: Callable[[sa.Connection], object] = lambda _connection: None,
) -> None:
    """
    Post or replace the maintenance action, unless it is as the settings say.

    Args:
        engine: Of the scheduler.
        at: Local time in *timezone*, whole minutes.
        timezone: IANA name. Another zone alone does not change the action: two
            schedulers with different zones would otherwise change it back and forth.
        enabled: False keeps it listed, but inactive.
        check: Called in the transaction; raises if this scheduler may not write.
    """
    action = _make_action(at, timezone, enabled=enabled)
    with writing(engine) as connection:
        check(connection)
        _ensure(connection, action)


def foresee_maintenance(
    engine: sa.Engine, *, by: datetime, at: time, timezone: str, enabled: bool
) -> ForeseenMaintenance | None:
    """
    Return what ``ensure_maintenance`` would change, without changing it.

    Args:
        by: Aware UTC; the result says whether the action would be due by then.
        at: As for ``ensure_maintenance``.
        timezone: As for ``ensure_maintenance``.
        enabled: As for ``ensure_maintenance``.

    Returns:
        None if nothing would change.
    """
    action = _make_action(at, timezone, enabled=enabled)
    with reading(engine) as connection:
        stored = _fetch_stored(connection)
    if stored is not None and not _is_other(stored, action):
        return None
    with writing(engine) as connection:
        savepoint = connection.begin_nested()
        posted = _ensure(connection, action)
        due = fetch_due(connection, [MAINTENANCE_UID], now=by)
        savepoint.rollback()
    return None if posted is None else ForeseenMaintenance(action, posted.created, due)


def _make_action(at: time, timezone: str, *, enabled: bool) -> ScheduledActionModel:
    return ScheduledActionModel(
        uid=MAINTENANCE_UID,
        name="maintenance",
        active=enabled,
        operations=OperationModel(maintenance=True),
        when=CronModel(cron_rule=f"{at.minute} {at.hour} * * *", timezone=timezone),
    )


def _ensure(connection: sa.Connection, action: ScheduledActionModel) -> Posted | None:
    """Store *action* unless it is stored already, or was deleted by an operator."""
    # If several schedulers start together, the others wait here for the first's commit.
    connection.execute(
        insert(small_apps)
        .values(uid=SYSTEM_APP, name="Minutehand itself")
        .on_conflict_do_nothing()
    )
    stored = _fetch_stored(connection)
    if stored is None:
        return post_action(connection, SYSTEM_APP, action, by=SCHEDULER)
    if _is_other(stored, action):
        return post_action(connection, SYSTEM_APP, action, replace=True, by=SCHEDULER)
    return None


def _fetch_stored(connection: sa.Connection) -> sa.Row[Any, Any] | None:
    return connection.execute(
        sa.select(scheduled_actions.c.document, scheduled_actions.c.deleted_at).where(
            scheduled_actions.c.uid == MAINTENANCE_UID
        )
    ).one_or_none()


def _is_other(stored: sa.Row[Any, Any], action: ScheduledActionModel) -> bool:
    """Return whether *stored* is to be replaced; a deleted action stays deleted."""
    if stored.deleted_at is not None:
        return False
    wanted = action_document(action)
    return _without_zone(stored.document) != _without_zone(wanted)


def _without_zone(document: dict[str, Any]) -> dict[str, Any]:
    when = document.get("when")
    if not isinstance(when, dict):
        return document
    kept = {key: value for key, value in when.items() if key != "timezone"}
    return {**document, "when": kept}
