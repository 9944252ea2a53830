"""The seeded installation is one that the product itself could have made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database import tables
from models.database.engine import make_engine, reading
from models.operation_state import OperationState
from overview.changes import verify_changes
from overview.data import fetch_detailed_domain
from overview.installation.status import fetch_status
from tests.presence import SETTINGS
from tests.seeded.actions import make_actions
from tests.seeded.apps import HOLIDAYS, make_people
from tests.seeded.businesses import BUSINESSES
from tests.seeded.data import make_events
from tests.seeded.history import make_history
from tests.seeded.scene import NOW, Scene
from tests.seeded.serving import find_database
from tests.seeded.sites import PAST, make_seeded_home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Give the folder of the one that tests look at; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    return make_seeded_home(base if worker_id == "master" else base.parent)


@pytest.fixture
def connection(home: Path) -> Iterator[sa.Connection]:
    """Give its database, at its time."""
    engine = make_engine(find_database(home), clock=lambda: NOW)
    with reading(engine) as connection:
        yield connection
    engine.dispose()


def test_it_is_what_the_product_would_have_made(connection: sa.Connection, home: Path):
    """
    Its chain of changes holds, its data can be read, and its actions are due. There are
    operations in each state, and rows in each table but a few.
    """
    domain = fetch_detailed_domain(
        connection, "delta-energy", "tariffs", workspace=home / "workspace"
    )
    status = fetch_status(connection, SETTINGS)
    empty = {
        name
        for name, table in tables.metadata.tables.items()
        if connection.execute(sa.select(table).limit(1)).first() is None
    }
    states = connection.execute(sa.select(tables.operations.c.state).distinct())

    assert verify_changes(connection).broken is None
    assert domain.problem is None
    assert status.leader is not None
    assert 5 == len(status.next_due)
    assert "assay-import" in {each.uid for each in status.quarantined}
    assert set(OperationState) == set(states.scalars())
    # Nobody asks over HTTP yet, no queue is paused, and no server is given up.
    nothing = {"idempotency_keys", "queue_pauses", "strangers", "breakers"}
    assert nothing == empty


def test_it_is_the_same_each_time(connection: sa.Connection):
    """The same seed and the same moment give the same rows, of one app by itself."""
    scene, business = Scene(history=PAST), BUSINESSES[0]
    people = {each.uid: make_people(scene, each) for each in BUSINESSES}
    actions = make_actions(scene, HOLIDAYS, [business])
    history = make_history(scene, actions, people, [*make_events(scene, people)])
    ids = [row["id"] for row in history.operations]

    for table, again in (
        (tables.scheduled_actions, [each.columns for each in actions]),
        (tables.operations, history.operations),
        (tables.operation_steps, history.steps),
        (tables.deliveries, history.deliveries),
    ):
        known = table.c
        is_its = (
            known.operation_id.in_(ids)
            if "operation_id" in known
            else known.app == business.uid
        )
        found = connection.execute(
            sa.select(*(known[each] for each in again[0])).where(is_its)
        )
        keys = [each.name for each in table.primary_key]
        kept, made = (
            {tuple(row[key] for key in keys): dict(row) for row in each}
            for each in (found.mappings(), again)
        )
        assert made == kept, table.name
