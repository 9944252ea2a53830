"""One app's backlog keeps nobody else waiting (real processes)."""

from __future__ import annotations

import sqlalchemy as sa

from models.database.tables import operations
from models.operation_state import OperationState
from tests.chaos.installation import Installation
from tests.database import fetch_rows
from tests.scheduling import get, make_operation, record_all
from tests.servers import wait_until

CROWD = 40

#: Two that ran when the other app's came, two that the lanes' turns may let first, and
#: two that a worker may have taken ahead.
BEFORE = 6


def count(installation: Installation, *where: sa.ColumnElement[bool]) -> int:
    return fetch_rows(
        installation.engine,
        sa.select(sa.func.count()).select_from(operations).where(*where),
    ).scalar_one()


def test_first_operation_of_an_app_waits_for_no_backlog(
    scheduled: Installation,
) -> None:
    """What came later, of another app, runs before what the first had piled up."""
    gate = scheduled.folder / "gate"
    crowded = scheduled.add("wait_for", str(gate))
    calm = scheduled.add("sleep", 0)
    piled = [make_operation(n, action_uid=crowded, app="crowd") for n in range(CROWD)]
    record_all(scheduled.engine, *piled)
    of_crowd = operations.c.app == "crowd"
    with scheduled.worker():
        wait_until(
            lambda: (
                count(scheduled, of_crowd, operations.c.state == OperationState.RUNNING)
                == 2
                and count(scheduled, operations.c.state == OperationState.PENDING) == 0
            ),
            what="two to run and all others to be queued",
        )
        other = make_operation(CROWD, action_uid=calm, app="calm")
        record_all(scheduled.engine, other)
        scheduled.wait_for_state(other.id, OperationState.QUEUED)
        gate.touch()
        row = scheduled.wait_until_final(other.id)
        for each in piled:
            scheduled.wait_until_final(each.id)

    assert row.state == OperationState.SUCCEEDED
    started_at = get(scheduled.engine, other.id).started_at
    assert count(scheduled, of_crowd, operations.c.started_at < started_at) <= BEFORE
