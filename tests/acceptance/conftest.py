"""Acceptance tests run what users run: processes, against real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import redis
import sqlalchemy as sa

from tests.chaos.installation import Installation


@pytest.fixture
def installation(
    postgres_url: str, redis_url: str, tmp_path: Path
) -> Iterator[Installation]:
    """Give an installation on PostgreSQL and Redis."""
    made = Installation(postgres_url, redis_url, tmp_path)
    yield made
    made.engine.dispose()


@pytest.fixture(scope="module")
def scheduled_module(
    postgres_server_url: str,
    redis_server_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    """Give an installation whose scheduler runs for as long as the tests of a file."""
    name = f"minutehand_test_{uuid4().hex}"
    server = sa.create_engine(
        postgres_server_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
    )
    with server.connect() as connection:
        connection.execute(sa.text(f"create database {name}"))
    url = sa.make_url(postgres_server_url).set(database=name)
    with redis.Redis.from_url(redis_server_url) as client:
        client.flushdb()
    made = Installation(
        url.render_as_string(hide_password=False),
        redis_server_url,
        tmp_path_factory.mktemp("scheduled"),
    )
    with made.scheduler():
        yield made
    made.engine.dispose()
    with server.connect() as connection:
        connection.execute(sa.text(f"drop database {name} with (force)"))


@pytest.fixture
def scheduled(scheduled_module: Installation, tmp_path: Path) -> Installation:
    """Give that installation, with a folder and options of this test alone."""
    scheduled_module.folder = tmp_path
    scheduled_module.options = {}
    return scheduled_module
