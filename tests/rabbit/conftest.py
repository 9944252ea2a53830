"""Tests that need a RabbitMQ of their own; every one of them is marked so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.installation import Installation
from tests.chaos.servers import Victim
from tests.rabbit.server import purge

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests below this folder, for ``pytest -m rabbit``."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.rabbit)


@pytest.fixture(scope="module", autouse=True)
def _empty(rabbit: Victim) -> None:
    """Begin without what the tests of another folder have left in the queues."""
    purge(rabbit)


@pytest.fixture
def installation(
    postgres_url: str, rabbit: Victim, tmp_path: Path
) -> Iterator[Installation]:
    """Give an installation on PostgreSQL and RabbitMQ."""
    made = Installation(postgres_url, rabbit.url, tmp_path)
    yield made
    made.engine.dispose()
