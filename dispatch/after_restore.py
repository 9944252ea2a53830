"""
See to it that nothing runs twice after a backup of the database was put back.

One transaction, while no scheduler and no worker lives: what was live is canceled, for
an operator to decide; what was due since is recorded as missed; every action starts
anew. actions/ and operations/ have the part of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from actions.leader import fetch_leader
from actions.restore_actions import (
    decide_as_missed,
    fetch_living,
    get_last_beat_at,
    lock_lease,
    start_anew,
    void_lease,
)
from models.database.engine import read_clock, reading, writing
from models.errors import ConflictError, UsageError
from models.fields.instants import format_instant
from models.operation_state import Reason
from models.units import format_age
from operations.record import record
from operations.restore_operations import (
    LostFile,
    count_held,
    find_lost_files,
    get_last_recorded_at,
    settle_live,
)

#: For the engine of ``settle_restored``: nobody else is at it, and all of it is one
#: transaction.
DEADLINE = timedelta(minutes=30)

#: Missed rows in one statement; far below what either database takes as parameters.
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Restored:
    """
    What was changed, or would be.

    Args:
        as_of: When the backup was made, aware UTC.

        now: The database's clock, aware UTC.

        canceled: How many operations, by the state they were in.

        uncertain_mails: Mails that were on their way.

        missed_actions: How many actions were due since.

        missed_occurrences: How often, all together.

        restarted_actions: How many are in effect from now on.

        lost_files: Versions of data in use whose files are gone.
    """

    as_of: datetime
    now: datetime
    canceled: Mapping[str, int]
    uncertain_mails: int
    missed_actions: int
    missed_occurrences: int
    restarted_actions: int
    lost_files: list[LostFile]

    def as_json(self, *, dry_run: bool) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            "as_of": self.as_of,
            "now": self.now,
            "dry_run": dry_run,
            "canceled": dict(self.canceled),
            "uncertain_mails": self.uncertain_mails,
            "missed_actions": self.missed_actions,
            "missed_occurrences": self.missed_occurrences,
            "restarted_actions": self.restarted_actions,
            "lost_files": [
                {"app": f.app, "domain": f.domain, "use": f.use, "version": f.version}
                for f in self.lost_files
            ],
        }


def refuse_leader(engine: sa.Engine) -> None:
    """
    Refuse while a scheduler leads; asked first, on an engine that does not wait long.

    Raises:
        ConflictError: One does; says which, and when its lease ends.
    """
    with reading(engine) as connection:
        holder = fetch_leader(connection)
    if holder is None:
        return
    msg = (
        f"{holder.hostname} (pid {holder.pid}) leads, its heartbeat is "
        f"{format_age(holder.heartbeat_age)} old. Stop all schedulers and workers "
        f"first. If it is dead, its lease ends at {format_instant(holder.expires_at)}."
    )
    raise ConflictError(msg)


def settle_restored(
    engine: sa.Engine,
    *,
    as_of: datetime,
    workspace: Path,
    by: str | None,
    dry_run: bool = False,
) -> Restored:
    """
    Settle what a backup that was put back does not know of, in one transaction.

    Args:
        engine: With ``DEADLINE``, so that its statements may take their time.

        as_of: When the backup was made, aware UTC.

        workspace: The folder of data versions.

        by: Who asks for it.

        dry_run: Work it out, and leave everything as it is.

    Raises:
        ConflictError: A scheduler or a worker may live still.

        UsageError: The backup cannot have been made at *as_of*.
    """
    with writing(engine) as connection:
        lock_lease(connection)
        _refuse_life(connection)
        now = read_clock(connection)
        _check_instant(connection, as_of, now)
        savepoint = connection.begin_nested()
        restored = _settle(connection, as_of, now, workspace, by)
        if dry_run:
            savepoint.rollback()
        else:
            savepoint.commit()
    return restored


def _refuse_life(connection: sa.Connection) -> None:
    """Refuse while a worker or a standby may go on with what is settled here."""
    living = fetch_living(connection)
    if living:
        others = f" and {len(living) - 1} more" if len(living) > 1 else ""
        msg = (
            f"{living[0]}{others} lived less than a minute ago. Stop all schedulers "
            "and workers first. If they are dead, try again in a minute."
        )
        raise ConflictError(msg)
    held = count_held(connection)
    if held:
        msg = (
            f"a worker runs {held} operations. Stop all workers first. If they are "
            "dead, their leases end within a minute (MINUTEHAND_OPERATION_LEASE)."
        )
        raise ConflictError(msg)


def _check_instant(connection: sa.Connection, instant: datetime, now: datetime) -> None:
    """Refuse a time at which the backup cannot have been made."""
    if instant > now:
        msg = f"--as-of: {format_instant(instant)} is later than now."
        raise UsageError(msg)
    signs = [get_last_beat_at(connection), get_last_recorded_at(connection)]
    last = max((at for at in signs if at is not None), default=None)
    if last is not None and last > instant:
        msg = (
            f"--as-of: the database knows of {last:%F %T.%f}Z, which is later. Name "
            "the time at which the backup was made. If the installation has run since "
            "it was put back, it is too late for this command: see docs/backup.md."
        )
        raise UsageError(msg)


def _settle(
    connection: sa.Connection,
    as_of: datetime,
    now: datetime,
    workspace: Path,
    by: str | None,
) -> Restored:
    stamp = format_instant(as_of)
    reason = f"{Reason.RESTORED}: as of {stamp}"
    settled = settle_live(
        connection,
        reason=reason,
        error=f"the database was restored as of {stamp}: this may have run since, and "
        "its mails may have left, also those without a mark. Find out, then run it: "
        "minutehand operations retry; or leave it",
    )
    missed = decide_as_missed(connection, now=now, reason=reason)
    for start in range(0, len(missed), _CHUNK):
        record(connection, missed[start : start + _CHUNK])
    restarted = start_anew(connection, as_of=as_of, now=now, by=by)
    void_lease(connection)
    return Restored(
        as_of=as_of,
        now=now,
        canceled=settled.operations,
        uncertain_mails=settled.mails,
        missed_actions=len({row.action_uid for row in missed}),
        missed_occurrences=sum(_count(row.details) for row in missed),
        restarted_actions=restarted,
        lost_files=find_lost_files(connection, workspace),
    )


def _count(details: Mapping[str, object] | None) -> int:
    count = (details or {}).get("count", 1)
    assert isinstance(count, int)  # as make_missed wrote it
    return count
