"""Which rows somebody else keeps locked."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from models.database.engine import writing
from models.database.held_rows import find_held
from models.database.tables import operation_steps, operations
from models.database.transaction import AtOnce
from tests.scheduling import add_steps, put

pytestmark = pytest.mark.usefixtures("small_app")

_step = operation_steps.c


def find(
    engine: sa.Engine, key: sa.Column[UUID], keys: Iterable[UUID], *where: object
) -> set[UUID]:
    """Ask in a transaction of its own."""
    with writing(engine) as connection:
        return find_held(AtOnce(connection), key, keys, *where)  # type: ignore[arg-type]


def test_keys_of_locked_rows_are_found_and_the_others_locked(
    postgres_engine: sa.Engine,
):
    """Nobody is waited for; what is not asked for, or is not there, is not locked."""
    held, free, other = (put(postgres_engine, number) for number in range(3))
    row = sa.select(operations.c.id).with_for_update()

    with writing(postgres_engine) as shell, writing(postgres_engine) as mine:
        shell.execute(row.where(operations.c.id == held))
        keys = [held, free, uuid4()]
        found = find_held(AtOnce(mine), operations.c.id, keys)
        left = shell.execute(row.with_for_update(skip_locked=True)).scalars().all()

    assert ({held}, {held, other}) == (found, set(left))
    assert set() == find(postgres_engine, operations.c.id, [held])


@pytest.mark.parametrize(("locked", "is_held"), [("refresh", True), ("publish", False)])
def test_key_is_held_by_one_of_its_rows(
    postgres_engine: sa.Engine, locked: str, *, is_held: bool
):
    """If that is one of those that are asked for."""
    made = put(postgres_engine)
    steps = [{"name": name, "state": "pending"} for name in ("refresh", "publish")]
    add_steps(postgres_engine, made, *steps)

    with writing(postgres_engine) as shell:
        row = sa.select(operation_steps).where(_step.name == locked)
        shell.execute(row.with_for_update())
        asked = _step.name == "refresh"
        found = find(postgres_engine, _step.operation_id, [made], asked)
        any_row = find(postgres_engine, _step.operation_id, [made])

    assert is_held == (found == {made})
    assert {made} == any_row


def test_no_key_asks_nothing(any_engine: sa.Engine):
    """Nor does SQLite, which has no locks of rows."""
    with writing(any_engine) as connection:
        assert set() == find_held(AtOnce(connection), operations.c.id, [])
    if any_engine.dialect.name == "sqlite":
        assert set() == find(any_engine, operations.c.id, [put(any_engine)])
