"""Find what a tick would decide at an instant, without recording anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.decide import ActionRevision, decide_time
from actions.own_actions import (
    MAINTENANCE_UID,
    ForeseenMaintenance,
    MaintenancePlan,
    foresee_maintenance,
)
from actions.tick import Dispatched, run_tick
from models.decision import Decision, NewOperation


@dataclass(slots=True)
class ForeseenTick:
    """
    What a tick would do.

    Args:
        operations: The operations that it would record.
        quarantined: Actions that it would put into quarantine, each with the reason.
        maintenance: How the scheduler would change its own maintenance first. None: the
            maintenance is as the settings say.
    """

    operations: list[NewOperation] = field(default_factory=list)
    quarantined: list[tuple[ActionRevision, str]] = field(default_factory=list)
    maintenance: ForeseenMaintenance | None = None

    def as_json(self) -> list[dict[str, object]]:
        """Return the documented objects, one for each operation."""
        return [
            {name.removesuffix("_id"): getattr(each, name) for name in _SHOWN}
            for each in self.operations
        ]


#: What is shown of an operation that is yet to be recorded.
_SHOWN = (
    *("id", "action_uid", "app", "occurrence", "user_id"),
    *("trigger", "queue", "state", "reason", "details"),
)


@dataclass(slots=True)
class NoFlights:
    """Dispatching by functions that do it all at once."""

    dispatch: Callable[[Sequence[Decision]], Dispatched]
    quarantine: Callable[[ActionRevision, str], None]
    _landed: Dispatched = field(default_factory=lambda: Dispatched(0, 0))

    def launch(
        self, decisions: Sequence[Decision], *, land: Callable[[], None]
    ) -> None:
        """Dispatch *decisions*."""
        land()
        self._landed = self.dispatch(decisions)

    def hand_over(self) -> None:
        """Do nothing."""

    def land(self) -> Dispatched:
        """Return what the launch did."""
        return self._landed

    def finish(self) -> int:
        """Do nothing."""
        return 0


def foresee_tick(
    engine: sa.Engine,
    plan: MaintenancePlan,
    *,
    now: datetime,
    lookback: timedelta,
    chunk: int,
) -> ForeseenTick:
    """
    Return what a tick of *now* would record, and what else it would do.

    Args:
        engine: Due actions are read from it. The maintenance is stored in a transaction
            that is rolled back.
        plan: Of its maintenance.
        now: Aware UTC.
        lookback: As for ``run_tick``.
        chunk: As for ``run_tick``.
    """
    foreseen = ForeseenTick(maintenance=foresee_maintenance(engine, plan, by=now))

    def keep(decisions: Sequence[Decision]) -> Dispatched:
        foreseen.operations.extend(
            each
            for made in decisions
            # The stored maintenance would be replaced first.
            if foreseen.maintenance is None or made.action_uid != MAINTENANCE_UID
            for each in made.operations
        )
        return Dispatched(0, 0)

    def keep_out(action: ActionRevision, reason: str) -> None:
        foreseen.quarantined.append((action, reason))

    flights = NoFlights(keep, keep_out)
    run_tick(now, engine=engine, dispatcher=flights, lookback=lookback, chunk=chunk)
    if foreseen.maintenance is not None:
        for action in foreseen.maintenance.due:
            made = decide_time(action, now=now, lookback=lookback, memo={})
            foreseen.operations.extend(made.operations)
    return foreseen
