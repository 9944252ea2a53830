"""
Make sure that nothing runs twice after a backup of the database was restored.

One transaction, while no scheduler and no worker is alive: live operations are
canceled, and an operator decides about them; occurrences that were due since the backup
are recorded as missed; every action starts anew (actions/restore_actions.py).

An operation that was live in the backup may have ended since, in the history that was
lost. Nobody can know, so none of them runs by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from actions import restore_actions
from actions.lease import fetch_leader
from actions.pausing.targets import spread_part
from dispatch.backfills.requests import OccurrenceOutcome, end_backfills
from dispatch.bulk.requests import end_bulk_changes
from dispatch.due_pauses import end_pauses
from models.database.engine import db_now, read_clock, reading, writing
from models.database.journal import rolled_back
from models.database.tables import (
    LIVE,
    NO_CLAIM,
    deliveries,
    domain_versions,
    domains,
    operation_steps,
    operations,
)
from models.errors import ConflictError, UsageError
from models.fields.instants import format_instant
from models.operation_state import (
    OPEN_STEPS,
    MailState,
    OperationState,
    Reason,
    StepState,
)
from models.units import format_age, show_instant
from operations.record import record

_version = domain_versions.c

_step = operation_steps.c

_run = operations.c


def _settle_live(
    connection: sa.Connection, *, reason: str, error: str
) -> tuple[dict[str, int], int]:
    """
    Cancel all live operations, and mark mails that were being sent as uncertain.

    Returns:
        How many operations were live, by their state, and how many mails.
    """
    live = LIVE.of()
    counted = sa.select(_run.state, sa.func.count()).where(live)
    by_state = counted.group_by(_run.state).order_by(_run.state)
    counts: dict[str, int] = dict(connection.execute(by_state).all())
    open_steps = _step.state.in_(sorted(OPEN_STEPS))
    connection.execute(
        sa.update(operation_steps)
        .where(open_steps, _step.operation_id.in_(sa.select(_run.id).where(live)))
        .values(state=StepState.SKIPPED, finished_at=db_now())
    )
    connection.execute(
        sa.update(operations)
        .where(live)
        .values(
            state=OperationState.CANCELED,
            reason=reason,
            error=error,
            finished_at=db_now(),
        )
    )
    # Also for operations that were canceled before, while their workers ran on.
    connection.execute(
        sa.update(operations).where(_run.claim_token.is_not(None)).values(**NO_CLAIM)
    )
    marked = connection.execute(
        sa.update(deliveries)
        .where(deliveries.c.state == MailState.SENDING)
        .values(state=MailState.UNCERTAIN, updated_at=db_now())
    )
    return counts, marked.rowcount


@dataclass(frozen=True, slots=True)
class LostFile:
    """A version in use whose file is missing in the workspace."""

    app: str
    domain: str
    use: str
    version: int


def _find_lost_files(connection: sa.Connection, root: Path) -> list[LostFile]:
    """
    Return the versions in use without a file below *root*.

    The backup may be older than the workspace: versions pruned since are gone.
    """
    found = []
    for use in ("live", "staged", "previous"):
        rows = connection.execute(
            sa.select(_version.app, _version.domain, _version.version, _version.path)
            .join_from(
                domains,
                domain_versions,
                sa.and_(
                    _version.app == domains.c.app,
                    _version.domain == domains.c.name,
                    _version.version == domains.c[f"{use}_version"],
                ),
            )
            .order_by(_version.app, _version.domain)
        )
        found += [
            LostFile(row.app, row.domain, use, row.version)
            for row in rows
            if not (root / row.path).is_file()
        ]
    return found


#: For the engine of ``settle_restored``: nobody else uses the database then, and all
#: the work is one transaction.
DEADLINE = timedelta(minutes=30)

#: Missed rows in one statement: far fewer parameters than either database allows.
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Restored:
    """
    What was changed, or would be changed.

    Args:
        as_of: When the backup was made, aware UTC.
        now: The database's clock, aware UTC.
        canceled: How many operations were canceled, by their former state.
        uncertain_mails: How many mails were being sent and are now uncertain.
        missed_actions: How many actions were due since the backup.
        missed_occurrences: How many occurrences of them were missed.
        restarted_actions: How many actions are in effect from now on.
        lost_files: Versions of data in use whose files are gone.
        dry_run: Whether all was left as it is.
    """

    as_of: datetime
    now: datetime
    dry_run: bool
    canceled: Mapping[str, int]
    uncertain_mails: int
    missed_actions: int
    missed_occurrences: int
    restarted_actions: int
    lost_files: list[LostFile]


def refuse_leader(engine: sa.Engine) -> None:
    """
    Refuse to go on while a scheduler leads; called first, on an impatient engine.

    Raises:
        ConflictError: A scheduler leads; says which, and when its lease ends.
    """
    with reading(engine) as connection:
        holder = fetch_leader(connection)
    if holder is None:
        return
    raise ConflictError(
        f"{holder.hostname} (pid {holder.pid}) leads; its last heartbeat is "
        f"{format_age(holder.heartbeat_age)} old. Stop all schedulers and workers "
        f"first. If that process is dead, wait until its lease ends, at "
        f"{show_instant(holder.expires_at)}."
    )


def settle_restored(
    engine: sa.Engine,
    *,
    as_of: datetime,
    workspace: Path,
    by: str | None,
    dry_run: bool,
) -> Restored:
    """
    Settle what happened after the backup was made, in one transaction.

    Args:
        engine: With ``DEADLINE``: its statements may take long.
        as_of: When the backup was made, aware UTC.
        workspace: The folder of data versions.
        by: Who asks for it; kept with each revision.
        dry_run: Compute the result, and leave everything as it is.

    Raises:
        ConflictError: A scheduler or a worker may still be alive.
        UsageError: The backup cannot have been made at *as_of*.
    """
    with writing(engine) as connection:
        restore_actions.lock_lease(connection)
        _refuse_life(connection)
        now = read_clock(connection)
        _check_instant(connection, as_of, now)
        with rolled_back(connection) if dry_run else nullcontext():
            restored = _settle(connection, as_of, now, workspace, by)
    return replace(restored, dry_run=dry_run)


def _refuse_life(connection: sa.Connection) -> None:
    """Refuse while a worker or a standby could continue what is settled here."""
    living = restore_actions.fetch_living(connection)
    if living:
        others = f" and {len(living) - 1} more" if len(living) > 1 else ""
        raise ConflictError(
            f"{living[0]}{others} gave a sign of life less than a minute ago. Stop all "
            "schedulers and workers first. If they are dead, try again in a minute."
        )
    is_held = _run.claim_token.is_not(None), _run.lease_expires_at > db_now()
    held = connection.scalar(sa.select(sa.func.count()).where(*is_held))
    if held:
        raise ConflictError(
            f"workers still have claims on operations ({held}). Stop all workers "
            "first. If they are dead, their leases end within a minute "
            "(MINUTEHAND_OPERATION_LEASE)."
        )


def _check_instant(connection: sa.Connection, instant: datetime, now: datetime) -> None:
    """Refuse a time at which the backup cannot have been made."""
    if instant > now:
        raise UsageError(f"--as-of: {format_instant(instant)} is later than now.")
    # What this very command has recorded before does not count.
    is_ours = sa.and_(
        _run.state == OperationState.MISSED,
        _run.reason.startswith(Reason.RESTORED.value),
    )
    recorded_at = sa.select(sa.func.max(_run.recorded_at)).where(~is_ours)
    signs = [
        restore_actions.get_last_beat_at(connection),
        connection.scalar(recorded_at),
    ]
    last = max((at for at in signs if at is not None), default=None)
    if last is not None and last > instant:
        raise UsageError(
            f"--as-of: the database has rows of {last:%FT%T.%fZ}, which is later. Name "
            "the time at which the backup was made; if yours is some seconds earlier, "
            "name this. If the installation has run since the backup was restored, it "
            "is too late for this command: see docs/backup.md."
        )


def _settle(
    connection: sa.Connection,
    as_of: datetime,
    now: datetime,
    workspace: Path,
    by: str | None,
) -> Restored:
    stamp = format_instant(as_of)
    reason = f"{Reason.RESTORED}: as of {stamp}"
    canceled, mails = _settle_live(
        connection,
        reason=reason,
        error=f"the database was restored as of {stamp}: this operation may have run "
        "since, and its mails may have left, even those without a delivery mark. Find "
        "out, then run it again (minutehand operations retry) or leave it",
    )
    # Or the first tick would let actions go on from before now, and run what is late.
    while spread_part(connection) or end_pauses(connection, now=now):
        pass
    missed = restore_actions.decide_as_missed(connection, now=now, reason=reason)
    for start in range(0, len(missed), _CHUNK):
        record(connection, missed[start : start + _CHUNK])
    end_backfills(connection, OccurrenceOutcome.RESTORED)
    end_bulk_changes(connection, OccurrenceOutcome.RESTORED)
    restarted = restore_actions.start_anew(connection, as_of=as_of, now=now, by=by)
    restore_actions.void_lease(connection)
    return Restored(
        as_of=as_of,
        now=now,
        dry_run=False,
        canceled=canceled,
        uncertain_mails=mails,
        missed_actions=len({row.action_uid for row in missed}),
        missed_occurrences=sum((row.details or {}).get("count", 1) for row in missed),
        restarted_actions=restarted,
        lost_files=_find_lost_files(connection, workspace),
    )
