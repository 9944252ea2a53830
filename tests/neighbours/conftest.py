"""An installation on each sort of broker, where others are at work too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.installation import Installation
from tests.chaos.servers import Victim
from tests.rabbit.server import purge


@pytest.fixture
def rabbit_url(rabbit: Victim) -> str:
    """Give a RabbitMQ without a queue or an exchange."""
    purge(rabbit)
    return rabbit.url


@pytest.fixture(
    params=["redis_url", pytest.param("rabbit_url", marks=pytest.mark.rabbit)]
)
def broker_url(request: pytest.FixtureRequest) -> str:
    """Give an empty broker of each sort."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def installation(
    broker_url: str, postgres_url: str, tmp_path: Path
) -> Iterator[Installation]:
    """Give an installation on PostgreSQL and that broker."""
    made = Installation(postgres_url, broker_url, tmp_path)
    yield made
    made.engine.dispose()
