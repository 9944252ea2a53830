"""Operations of ours beside what others have on the broker, and what became of them."""

from __future__ import annotations

from uuid import UUID, uuid4

import sqlalchemy as sa

from celery_app.app import make_app
from models.database.engine import read_clock, writing
from models.database.tables import operations
from models.decision import NewOperation
from models.operation_state import Overlap, Queue, Trigger
from operations.record import record
from tests.chaos.installation import Installation


def record_many(installation: Installation, count: int) -> list[UUID]:
    """Record so many runs of one quick action; return their ids."""
    return record_runs(installation, installation.add("sleep", 0), count)


def record_runs(installation: Installation, uid: str, count: int) -> list[UUID]:
    """Record so many runs of the quick action *uid*; return their ids."""
    with writing(installation.engine) as connection:
        now = read_clock(connection).replace(microsecond=0)
        new = [
            NewOperation(
                id=uuid4(),
                action_uid=uid,
                action_revision=1,
                app="app",
                trigger=Trigger.MANUAL,
                triggered_by="a test",
                occurrence=now,
                queue=Queue.QUICK,
                overlap=Overlap.ALLOW,
            )
            for _ in range(count)
        ]
        record(connection, new)
    return [each.id for each in new]


def count_states(installation: Installation) -> dict[str, int]:
    column = operations.c.state
    with installation.engine.connect() as connection:
        rows = connection.execute(
            sa.select(column, sa.func.count().label("number")).group_by(column)
        )
        return {row.state: row.number for row in rows}


def count_effects(installation: Installation) -> dict[str, int]:
    """Return how often each operation came through."""
    found: dict[str, int] = {}
    path = installation.folder / "effects"
    for line in path.read_text().splitlines() if path.exists() else []:
        operation_id, _attempt, what = line.split()
        if what == "done":
            found[operation_id] = found.get(operation_id, 0) + 1
    return found


def ping(installation: Installation) -> list[str]:
    app = make_app(installation.settings)
    return [name for reply in app.control.ping(timeout=2) for name in reply]
