"""Engines of processes that a test plays, each with sessions of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from models.database.engine import make_engine


def _connect(url: str) -> Iterator[sa.Engine]:
    engine = make_engine(url, timeout=timedelta(minutes=1))
    yield engine
    engine.dispose()


@pytest.fixture
def ours(postgres_url: str) -> Iterator[sa.Engine]:
    """Give an engine on a PostgreSQL database that this test alone connects with."""
    yield from _connect(postgres_url)


@pytest.fixture
def other(postgres_url: str) -> Iterator[sa.Engine]:
    """Give the engine of another process on the same database."""
    yield from _connect(postgres_url)
