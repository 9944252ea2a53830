"""Acceptance tests run what users run: processes, against real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.chaos.installation import Installation
from tests.conftest import new_database, show_url


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
    with redis.Redis.from_url(redis_server_url) as client:
        client.flushdb()
    folder = tmp_path_factory.mktemp("scheduled")
    with new_database(postgres_server_url, "template0") as url:
        made = Installation(show_url(url), redis_server_url, folder)
        with made.scheduler():
            yield made
        made.engine.dispose()


@pytest.fixture
def scheduled(scheduled_module: Installation, tmp_path: Path) -> Installation:
    """Give that installation, with a folder and options of this test alone."""
    scheduled_module.folder = tmp_path
    scheduled_module.options = {}
    return scheduled_module
