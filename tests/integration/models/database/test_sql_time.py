"""Instants in SQL mean the same on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from models.database.engine import UtcDateTime, reading
from models.database.sql_time import number_of

QUARTER = timedelta(minutes=15)
TEN = datetime(2026, 11, 23, 10, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("year", [1970, 2026, 2254])
def test_stretch_ends_with_its_last_microsecond(engine: sa.Engine, year: int):
    """An instant belongs to the stretch that begins with it, not to the one before."""
    begin = TEN.replace(year=year)
    instants = [begin, begin + QUARTER - timedelta.resolution, begin + QUARTER]
    with reading(engine) as connection:
        found = [
            connection.execute(
                sa.select(
                    number_of(connection.dialect.name, sa.literal(at, UtcDateTime), 900)
                )
            ).scalar_one()
            for at in instants
        ]

    number = (begin - EPOCH) // QUARTER
    assert [number, number, number + 1] == found
