"""
The scheduled action behind the notices, and which apps asked for notices.

A notice is an operation like any other, so it needs an action. That one belongs to the
scheduler's own app, and is made for the first notice. Like any other action it is
listed; an operator who wants no notices pauses or deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.leader import LEASE_NAME
from actions.lookup import SYSTEM_APP
from actions.posting.post import post_action
from models.database.engine import db_now
from models.database.tables import leases, scheduled_actions, small_apps
from models.operation import OperationModel
from models.scheduled_action import ScheduledActionModel
from models.when import OnEventModel

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
    rows = connection.execute(
        sa.select(
            db_now(),
            leases.c.noticed_until,
            small_apps.c.uid,
            small_apps.c.timezone,
            small_apps.c.notices,
        )
        .select_from(
            leases.outerjoin(
                small_apps,
                sa.and_(
                    small_apps.c.notices.is_not(None),
                    small_apps.c.deleted_at.is_(None),
                ),
            )
        )
        .where(leases.c.name == LEASE_NAME)
        .order_by(small_apps.c.uid)
    ).all()
    now, until, *_ = rows[0]  # the leader's lease has a row
    apps = [(uid, zone, found) for _, _, uid, zone, found in rows if uid is not None]
    return Watch(now.astimezone(UTC), until, apps)


def record_watch(connection: sa.Connection, until: datetime | None) -> None:
    """Store when the last look was; None: nobody asked. Check the lease first."""
    connection.execute(
        sa.update(leases).where(leases.c.name == LEASE_NAME).values(noticed_until=until)
    )


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
    connection.execute(
        insert(small_apps)
        .values(uid=SYSTEM_APP, name="Minutehand itself")
        .on_conflict_do_nothing()
    )
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
