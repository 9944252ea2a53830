"""The fakes of operations, for its unit tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.operations.fakes import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Give all ports in memory."""
    return World(tmp_path)
