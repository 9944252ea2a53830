"""Unit tests reach no network: opening a socket fails the test."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import pytest

from telemetry import configure_logging


@pytest.fixture(autouse=True)
def _closed_network(socket_disabled: None) -> None:
    """Refuse sockets (pytest-socket), so that a unit test stays one."""


@pytest.fixture
def stream() -> io.StringIO:
    """Give the stream of a log in JSON."""
    stream = io.StringIO()
    configure_logging(stream=stream)
    return stream


@pytest.fixture
def in_paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the clock of this computer be that of Paris."""
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
