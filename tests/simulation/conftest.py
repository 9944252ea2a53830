"""
Worlds are lived through anew only where they may be others than before.

A seed is the same world as long as the core, and the simulation, are what they were.
`make simulate ARGS=--record` lives through all worlds of the tests and, if each went as
it must, writes the fingerprint of that core into a file beside this one. While it is
still that of the core, the tests live through one seed, to show that it replays; all
are lived through if the command names the simulation.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]

#: The fingerprint of the core whose worlds were lived through last, all of them.
RECORD = _HERE / "lived_core.txt"

#: All that runs in a world.
_CORE = (
    *("actions", "celery_app", "dispatch", "models", "operations"),
    *("scheduler_server.py", "settings.py", "telemetry.py", "tracing.py"),
    *("tests/simulation", "tests/unit/operations/fakes.py"),
    *("requirements.lock", "requirements-dev.lock"),
)


def fingerprint_core() -> str:
    """Return what differs as soon as any file of the core does."""
    digest = hashlib.sha256()
    for name in _CORE:
        top = _ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.suffix != ".pyc" and path != RECORD:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{path.relative_to(_ROOT)} {content}\n".encode())
    return digest.hexdigest()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out the worlds that would be the same again."""
    worlds = [
        item
        for item in items
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("world")
    ]
    named = any(_HERE.name in argument for argument in config.args)
    if not worlds or named or os.environ.get("MINUTEHAND_TEST_ALL"):
        return
    if RECORD.read_text().strip() == fingerprint_core():
        config.hook.pytest_deselected(items=worlds)
        items[:] = [each for each in items if not each.get_closest_marker("world")]
