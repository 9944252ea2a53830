"""
Find actions with steps that nothing here knows, and put them into quarantine.

A tick does not read what actions do, only when. So each new leader looks through all
active actions once, a part at a time, between its ticks: the package that added a step
may have been uninstalled before this program started.
"""

from __future__ import annotations

import sqlalchemy as sa
import structlog

from actions.due_action import ActionRevision
from actions.due_rows import quarantine
from actions.leader import Leader
from models.database.engine import read_clock, reading, writing
from models.database.tables import scheduled_actions
from models.operation import explain_unknown_steps, find_unknown_steps
from telemetry import ACTIONS_QUARANTINED, Event

log = structlog.get_logger()

#: Actions that one look reads, in some tens of milliseconds.
PART = 2_000

_kept = scheduled_actions.c


class StepCheck:
    """The look of one leader through all actions."""

    def __init__(self, engine: sa.Engine, leader: Leader) -> None:
        """Begin at the first look."""
        self._engine = engine
        self._leader = leader
        self._fence: int | None = None
        self._after: str | None = None

    def look(self) -> None:
        """
        Look at the next part, if there is one.

        Raises:
            LeadershipLostError, UnreachableError: The next look begins with this part.
        """
        if self._leader.fence != self._fence:
            self._fence, self._after = self._leader.fence, ""
        if self._after is None:
            return
        with reading(self._engine) as connection:
            rows = connection.execute(
                sa.select(_kept.uid, _kept.revision, _kept.document)
                .where(
                    _kept.uid > self._after,
                    _kept.active,
                    _kept.quarantined_at.is_(None),
                    _kept.deleted_at.is_(None),
                )
                .order_by(_kept.uid)
                .limit(PART)
            ).all()
        for row in rows:
            unknown = find_unknown_steps(row.document["operations"])
            if unknown:
                self._quarantine(
                    ActionRevision(row.uid, row.revision),
                    explain_unknown_steps(unknown),
                )
        self._after = rows[-1].uid if len(rows) == PART else None

    def _quarantine(self, action: ActionRevision, reason: str) -> None:
        with writing(self._engine) as connection:
            self._leader.check(connection)
            if not quarantine(connection, action, reason, now=read_clock(connection)):
                return  # it has changed, and was read as it is now
        log.error(Event.ACTION_QUARANTINED, action_uid=action.uid, reason=reason)
        ACTIONS_QUARANTINED.inc()
