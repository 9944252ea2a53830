"""
Each port keeps its promises, in memory and for real.

Steps are tested with the ports in memory; what those do otherwise than the real ones
would be tested for nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests below this folder, for ``pytest -m "not integration"``."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.integration)
