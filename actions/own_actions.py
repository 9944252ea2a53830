"""
The scheduler's own scheduled actions: maintenance, and the one behind the notices.

Maintenance prunes old rows and files, every day. A notice is an operation like any
other, so it needs an action, which is made for the first notice. Both are in a small
app of the scheduler's own, and are listed, explained and paused like any other; an
operator who wants no notices pauses or deletes theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.decide import DueAction
from actions.due_rows import fetch_due
from actions.lease import LEASE_NAME, write_lease
from actions.lookup import SYSTEM_APP
from actions.posting.post import Posted, Posting, post_action
from actions.posting.revisions import SCHEDULER
from models.database.engine import db_now, reading, writing
from models.database.journal import rolled_back
from models.database.tables import leases, scheduled_actions, small_apps
from models.door.documents import action_document
from models.operation import OperationModel
from models.scheduled_action import ScheduledActionModel
from models.when import CronModel, OnEventModel

MAINTENANCE_UID = "minutehand-maintenance"


class MaintenancePlan(Protocol):
    """When maintenance is to run: what the settings say of it."""

    @property
    def maintenance_at(self) -> time:
        """Local time in the zone, whole minutes."""

    @property
    def timezone(self) -> str:
        """
        IANA name. Another zone alone does not change the action: two schedulers with
        different zones would otherwise change it back and forth.
        """

    @property
    def maintenance_enabled(self) -> bool:
        """False keeps it listed, but inactive."""


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
    plan: MaintenancePlan,
    *,
    check: Callable[[sa.Connection], object] = lambda _connection: None,
) -> None:
    """
    Post or replace the maintenance action, unless it is as planned.

    Args:
        engine: Of the scheduler.
        check: Called in the transaction; raises if this scheduler may not write.
    """
    action = _make_action(plan)
    with writing(engine) as connection:
        check(connection)
        _ensure(connection, action)


def foresee_maintenance(
    engine: sa.Engine, plan: MaintenancePlan, *, by: datetime
) -> ForeseenMaintenance | None:
    """
    Return what ``ensure_maintenance`` would change, without changing it.

    Args:
        by: Aware UTC; the result says whether the action would be due by then.

    Returns:
        None if nothing would change.
    """
    action = _make_action(plan)
    with reading(engine) as connection:
        stored = _fetch_stored(connection)
    if stored is not None and not _is_other(stored, action):
        return None
    with writing(engine) as connection, rolled_back(connection):
        posted = _ensure(connection, action)
        due = fetch_due(connection, [MAINTENANCE_UID], now=by)
    return None if posted is None else ForeseenMaintenance(action, posted.created, due)


def _make_action(plan: MaintenancePlan) -> ScheduledActionModel:
    at = plan.maintenance_at
    rule = f"{at.minute} {at.hour} * * *"
    return ScheduledActionModel(
        uid=MAINTENANCE_UID,
        name="maintenance",
        active=plan.maintenance_enabled,
        operations=OperationModel(maintenance=True),
        when=CronModel(cron_rule=rule, timezone=plan.timezone),
    )


def _ensure_app(connection: sa.Connection) -> None:
    connection.execute(
        insert(small_apps)
        .values(uid=SYSTEM_APP, name="Minutehand itself")
        .on_conflict_do_nothing()
    )


def _ensure(connection: sa.Connection, action: ScheduledActionModel) -> Posted | None:
    """Store *action* unless it is stored already, or was deleted by an operator."""
    # If several schedulers start together, the others wait here for the first's commit.
    _ensure_app(connection)
    stored = _fetch_stored(connection)
    if stored is not None and not _is_other(stored, action):
        return None
    how = Posting(replace=stored is not None, by=SCHEDULER)
    return post_action(connection, SYSTEM_APP, action, how)


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


NOTICES_UID = "minutehand-notices"

#: Every action has a rule; this one waits for an event that nobody can send, since the
#: scheduler's own app has no users.
_EVENT = "app.trouble"


@dataclass(frozen=True, slots=True)
class Watch:
    """
    Where a look for failures starts.

    Args:
        now: The database's clock, aware UTC.
        noticed_until: When the last look was, aware UTC. None: there was none, or
            nobody asked for notices then.
        apps: Uid, zone (IANA name or None) and ``notices`` document of each app that
            asked for notices.
    """

    now: datetime
    noticed_until: datetime | None
    apps: Sequence[tuple[str, str | None, object]]


def fetch_watch(connection: sa.Connection) -> Watch:
    """Return which apps asked for notices, and when the last look was."""
    app, until = small_apps.c, leases.c.noticed_until
    asked = sa.and_(app.notices.is_not(None), app.deleted_at.is_(None))
    rows = connection.execute(
        sa.select(db_now(), until, app.uid, app.timezone, app.notices)
        .select_from(leases.outerjoin(small_apps, asked))
        .where(leases.c.name == LEASE_NAME)
        .order_by(app.uid)
    ).all()
    now, noticed_until, *_ = rows[0]  # the leader's lease has a row
    apps = [(uid, zone, found) for _, _, uid, zone, found in rows if uid is not None]
    return Watch(now.astimezone(UTC), noticed_until, apps)


def record_watch(connection: sa.Connection, until: datetime | None) -> None:
    """Store when the last look was; None: nobody asked. Check the lease first."""
    write_lease(connection, noticed_until=until)


def ensure_notices(connection: sa.Connection) -> int | None:
    """
    Return the revision of the action of notices; make the action if there is none.

    Returns:
        None if it was paused or deleted: no notices are to be sent.
    """
    kept = scheduled_actions.c
    stored = connection.execute(
        sa.select(kept.revision, kept.paused_at, kept.deleted_at).where(
            kept.uid == NOTICES_UID
        )
    ).one_or_none()
    if stored is not None:
        silent = stored.paused_at is not None or stored.deleted_at is not None
        return None if silent else int(stored.revision)
    _ensure_app(connection)
    action = ScheduledActionModel(
        uid=NOTICES_UID,
        name="notices",
        operations=OperationModel(notify=True),
        when=OnEventModel(on=_EVENT),
    )
    return post_action(connection, SYSTEM_APP, action).revision


def find_idle(connection: sa.Connection, uids: Sequence[str]) -> set[str]:
    """Return those of *uids* that will not run again, so no recovery will follow."""
    kept = scheduled_actions.c
    going_on = sa.and_(
        kept.deleted_at.is_(None),
        kept.active,
        sa.or_(kept.next_due_at.is_not(None), kept.event.is_not(None)),
    )
    found = connection.execute(
        sa.select(kept.uid).where(kept.uid.in_(uids), going_on)
    ).scalars()
    return set(uids) - set(found)
