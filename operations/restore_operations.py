"""
What happens to operations when a backup of the database was restored.

An operation that was live in the backup may have ended since, in the history that was
lost. Nobody can know, so none of them runs by itself: an operator decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import (
    LIVE,
    NO_CLAIM,
    deliveries,
    domain_versions,
    domains,
    operation_steps,
    operations,
)
from models.operation_state import (
    OPEN_STEPS,
    DeliveryState,
    OperationState,
    Reason,
    StepState,
)

_version = domain_versions.c

_step = operation_steps.c

_run = operations.c


@dataclass(frozen=True, slots=True)
class Settled:
    """
    What was live and has been settled.

    Args:
        operations: How many operations were canceled, by their former state.
        mails: Marks that became ``uncertain``.
    """

    operations: Mapping[str, int]
    mails: int


def settle_live(connection: sa.Connection, *, reason: str, error: str) -> Settled:
    """
    Cancel all live operations, and mark mails that were being sent as uncertain.

    Args:
        connection: In a transaction, while no worker is alive.
        reason: Begins with ``Reason.RESTORED``.
        error: For the operator: what is unknown, and what to do.
    """
    live = LIVE.of()
    counted = connection.execute(
        sa.select(_run.state, sa.func.count().label("operations"))
        .where(live)
        .group_by(_run.state)
        .order_by(_run.state)
    )
    counts = {row.state: row.operations for row in counted}
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
        .where(deliveries.c.state == DeliveryState.SENDING)
        .values(state=DeliveryState.UNCERTAIN, updated_at=db_now())
    )
    return Settled(counts, marked.rowcount)


def count_held(connection: sa.Connection) -> int:
    """Return how many operations are claimed under a lease that has not run out."""
    return connection.execute(
        sa.select(sa.func.count()).where(
            _run.claim_token.is_not(None), _run.lease_expires_at > db_now()
        )
    ).scalar_one()


def get_last_recorded_at(connection: sa.Connection) -> datetime | None:
    """Return when an operation was last recorded, except by ``minutehand restored``."""
    last: datetime | None = connection.execute(
        sa.select(sa.func.max(_run.recorded_at)).where(
            sa.or_(
                _run.state != OperationState.MISSED,
                ~_run.reason.startswith(Reason.RESTORED.value),
            )
        )
    ).scalar_one()
    return last


@dataclass(frozen=True, slots=True)
class LostFile:
    """A version in use whose file is missing in the workspace."""

    app: str
    domain: str
    use: str
    version: int


def find_lost_files(connection: sa.Connection, root: Path) -> list[LostFile]:
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
