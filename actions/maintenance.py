"""
The scheduler's own scheduled action: prune what is old, every day.

It is an action like any other, of a small app of the scheduler's own, so it is
listed, explained and paused like any other.
"""

from __future__ import annotations

from datetime import time

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.posting import SYSTEM_APP, post_action
from models.database import writing
from models.door import action_document
from models.operation import OperationModel
from models.scheduled_action import ScheduledActionModel
from models.tables import scheduled_actions, small_apps
from models.when import CronModel

MAINTENANCE_UID = "minutehand-maintenance"


def ensure_maintenance(
    engine: sa.Engine, *, at: time, timezone: str, enabled: bool
) -> None:
    """
    Make the maintenance action what the settings say; does nothing if it is already.

    Args:
        engine: Of the scheduler.

        at: Local time of *timezone*, whole minutes.

        timezone: IANA name.

        enabled: False keeps it listed, but inactive.
    """
    action = ScheduledActionModel(
        uid=MAINTENANCE_UID,
        name="maintenance",
        active=enabled,
        operations=OperationModel(maintenance=True),
        when=CronModel(cron_rule=f"{at.minute} {at.hour} * * *", timezone=timezone),
    )
    with writing(engine) as connection:
        connection.execute(
            insert(small_apps)
            .values(uid=SYSTEM_APP, name="Minutehand itself")
            .on_conflict_do_nothing()
        )
        stored = connection.execute(
            sa.select(
                scheduled_actions.c.document, scheduled_actions.c.deleted_at
            ).where(scheduled_actions.c.uid == MAINTENANCE_UID)
        ).one_or_none()
        if stored is None:
            post_action(connection, SYSTEM_APP, action)
        elif stored.deleted_at is None and stored.document != action_document(action):
            post_action(connection, SYSTEM_APP, action, replace=True)
