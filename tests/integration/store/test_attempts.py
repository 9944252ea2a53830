"""How long the next attempt waits: anew after each ``operations retry``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database import writing
from models.errors import StepError
from operations.claim import claim
from operations.ports import Ports, StepContext, StepResult
from operations.rescue import BACK_OFF, reclaim_lost_workers
from operations.run import RETRY_DELAY, Attempt
from operations.store import reopen
from tests.scheduling import (
    add_revision,
    edit,
    get,
    get_now,
    make_operation,
    record_all,
)
from tests.unit.operations.fakes import World

SECOND = timedelta(seconds=1)
DAILY = make_operation()


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    """Give a world that no step looks at."""
    return World(tmp_path).make_context().ports


def fail(_context: StepContext, _arguments: object) -> StepResult:
    """Fail as what may pass does."""
    msg = "no network"
    raise StepError(msg, permanent=False)


def end_by_failure(engine: sa.Engine, ports: Ports) -> None:
    """Make an attempt whose step fails."""
    held = claim(engine, DAILY.id, worker="w")
    assert held is not None
    Attempt(engine, held, ports, steps={"run_task": fail}).run()


def end_by_loss(engine: sa.Engine, _ports: Ports) -> None:
    """Make an attempt whose worker dies."""
    assert claim(engine, DAILY.id, worker="w") is not None
    edit(engine, DAILY.id, lease_expires_at=get_now(engine) - SECOND)
    with writing(engine) as connection:
        reclaim_lost_workers(connection)


@pytest.mark.parametrize(
    ("end", "first"), [(end_by_failure, RETRY_DELAY), (end_by_loss, BACK_OFF)]
)
def test_pauses_begin_anew_after_a_retry(
    engine: sa.Engine,
    ports: Ports,
    end: Callable[[sa.Engine, Ports], None],
    first: timedelta,
):
    """
    They double within the three attempts that a retry gives, not beyond.
    """
    add_revision(engine)
    record_all(engine, DAILY)
    pauses = []
    for _retry in range(3):
        for _attempt in range(3):
            before = get_now(engine)
            end(engine, ports)
            row = get(engine, DAILY.id)
            if row.state == "pending":
                pauses.append((row.send_at - before).total_seconds())
                edit(engine, DAILY.id, send_at=before)
        with writing(engine) as connection:
            assert reopen(connection, DAILY.id)

    expected = [first.total_seconds(), 2 * first.total_seconds()] * 3
    assert expected == pytest.approx(pauses, abs=2)
