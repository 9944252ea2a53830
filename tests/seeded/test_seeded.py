"""The seeded installation is one that the product itself could have made."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database import tables
from models.database.engine import read_clock, reading
from models.operation_state import OperationState
from overview.apps.data import fetch_detailed_domain
from overview.changes import verify_changes
from overview.installation.status import fetch_status
from tests.presence import SETTINGS
from tests.seeded.fill import Seeded, fill
from tests.seeded.scene import Scene

pytestmark = pytest.mark.integration


@pytest.fixture
def seeded(engine: sa.Engine, tmp_path: Path) -> Seeded:
    """Make one with the operations of a day, at this moment."""
    with reading(engine) as connection:
        now = read_clock(connection)
    scene = Scene(now=now, history=timedelta(days=1))
    return fill(engine, scene=scene, workspace=tmp_path / "workspace")


def test_it_is_what_the_product_would_have_made(
    engine: sa.Engine, seeded: Seeded, tmp_path: Path
):
    """
    Its chain of changes holds, its data can be read, and its actions are due. There are
    operations in each state, and rows in each table but a few.
    """
    with reading(engine) as connection:
        verified = verify_changes(connection)
        domain = fetch_detailed_domain(
            connection, "delta-energy", "tariffs", workspace=tmp_path / "workspace"
        )
        status = fetch_status(connection, SETTINGS)
        empty = {
            name
            for name, table in tables.metadata.tables.items()
            if connection.execute(sa.select(table).limit(1)).first() is None
        }
    states = Counter(row["state"] for row in seeded.history.operations)

    assert verified.broken is None
    assert domain.problem is None
    assert status.leader is not None
    assert 5 == len(status.next_due)
    assert "assay-import" in {each.uid for each in status.quarantined}
    assert 2_000 == len(seeded.actions)
    assert set(OperationState) == set(states)
    # Nobody asks over HTTP yet, no queue is paused, and no server is given up.
    nothing = {"idempotency_keys", "queue_pauses", "strangers", "breakers"}
    assert nothing == empty


def test_it_is_the_same_each_time(sqlite_engine: sa.Engine):
    """The same seed and the same moment give the same rows."""
    scene = Scene(history=timedelta(hours=3))
    first = fill(sqlite_engine, scene=scene)
    with sqlite_engine.begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            if table not in {tables.installation, tables.change_head}:
                connection.execute(sa.delete(table))
    again = fill(sqlite_engine, scene=scene)

    assert first.history == again.history
    assert [each.columns for each in first.actions] == [
        each.columns for each in again.actions
    ]
