"""
Leading, as one scheduler sees it: it leads if it can, otherwise it stands by.

Each change is logged once, and so is each leader that it waits for.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa
import structlog

from actions.lease import Leader, get_holder
from dispatch.clocks import ZoneAdopter
from models.errors import ConflictError, UnreachableError
from telemetry import IS_LEADER, Event

log = structlog.get_logger()


@dataclass(slots=True)
class Leading:
    """
    The leadership of one scheduler: taken, kept, lost and released.

    Args:
        leader: The scheduler's part in the election.
        zones: What a new leader begins with.
    """

    engine: sa.Engine
    leader: Leader
    zones: ZoneAdopter
    _was_leading: bool = False
    _stood_by_for: int | None = None

    def hold(self) -> bool:
        """
        Lead if possible; a new leader looks for changed zones first.

        Returns:
            Whether this scheduler leads now.

        Raises:
            LeadershipLostError, UnreachableError: The next call does it again.
        """
        if not self.leader.hold():
            return False
        if not self._was_leading:
            self.zones.begin()
            log.info(Event.LEASE_ACQUIRED, fence=self.leader.fence)
            # last: if something above failed, the next wake does it again
            self._was_leading = True
            IS_LEADER.set(1)
        return True

    def lose(self) -> None:
        """Note that this scheduler no longer leads, if it did."""
        if self._was_leading:
            log.warning(Event.LEASE_LOST)
            self._was_leading = False
            IS_LEADER.set(0)

    def end(self) -> None:
        """Let a standby lead at once, if we lead; never raises."""
        led = self.leader.fence is not None
        try:
            self.leader.release()
        except UnreachableError as error:
            log.warning(Event.LEASE_LOST, error=str(error))
        else:
            if led:
                log.info(Event.LEASE_RELEASED)
        IS_LEADER.set(0)

    def stand_by(self, *, wait: bool) -> None:
        """
        Log who leads, once for each leadership.

        Raises:
            ConflictError: Another scheduler leads, and *wait* is False.
        """
        if not wait:
            raise ConflictError(describe_holder(self.engine))
        with suppress(UnreachableError):  # the wake has just logged it
            holder = get_holder(self.engine)
            if holder is None or holder.is_stale or holder.fence == self._stood_by_for:
                return
            whose = {"leader": holder.hostname, "pid": holder.pid}
            led = {"since": holder.acquired_at, "fence": holder.fence}
            log.info(Event.STANDING_BY, **whose, **led)
            self._stood_by_for = holder.fence


def describe_holder(engine: sa.Engine) -> str:
    """Say who leads, for a scheduler that does not wait."""
    holder = get_holder(engine)
    if holder is None:
        return "no scheduler leads now, but the lease could not be taken"
    return (
        f"{holder.hostname} (pid {holder.pid}) has led since "
        f"{holder.acquired_at:%F %T}Z"
    )
