"""How long operations wait for their start."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from overview.installation.figures import fetch_lag
from tests.database import read_by
from tests.scheduling import MINUTE, edit, get_now, make_operation, record_all


def test_lag_is_the_wait_of_most(engine: sa.Engine):
    """Of twenty, nineteen began within two seconds."""
    at = get_now(engine) - 5 * MINUTE
    for number in range(20):
        made = make_operation(number)
        record_all(engine, made)
        waits = timedelta(seconds=100 if number == 7 else 2)
        edit(engine, made.id, recorded_at=at, started_at=at + waits)
    found = read_by(engine, fetch_lag)

    assert found.p95 is not None
    assert found.p95.total_seconds() == pytest.approx(2, abs=0.01)
    assert (20, 1) == (found.count, len(found.by_minute))
