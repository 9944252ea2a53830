"""Unit tests reach no network: opening a socket fails the test."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _closed_network(socket_disabled: None) -> None:
    """Refuse sockets (pytest-socket), so that a unit test stays one."""


@pytest.fixture
def in_paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the clock of this computer be that of Paris."""
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
