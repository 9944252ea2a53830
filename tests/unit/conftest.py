"""Unit tests reach no network: opening a socket fails the test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _closed_network(socket_disabled: None) -> None:
    """Refuse sockets (pytest-socket), so that a unit test stays one."""
