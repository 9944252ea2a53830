"""
The simulation looks for planted mistakes only where it may have stopped finding them.

``MINUTEHAND_TEST_CORE_AT`` names a commit at which it found all: where the core, and
the simulation, are as they were there, it would find the same again.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_HERE = Path(__file__).parent

#: All that runs in it.
_CORE = (
    *("actions", "celery_app", "dispatch", "models", "operations"),
    *(
        "scheduler_server.py",
        "settings.py",
        "telemetry.py",
        "tracing.py",
        "tests/simulation",
    ),
    *("requirements.lock", "requirements-dev.lock"),
)


def is_core_as_at(commit: str) -> bool:
    """Tell whether nothing of the core has changed since; no if nobody can tell."""
    asked = ("git", "diff", "--quiet", commit, "--", *_CORE)
    try:
        done = subprocess.run(
            asked, cwd=_HERE.parents[1], capture_output=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out the mistakes where it would find the same ones again."""
    commit = os.environ.get("MINUTEHAND_TEST_CORE_AT")
    if not commit or os.environ.get("MINUTEHAND_TEST_ALL"):
        return
    planted = [each for each in items if each.path == _HERE / "test_mutants.py"]
    if planted and is_core_as_at(commit):
        config.hook.pytest_deselected(items=planted)
        items[:] = [each for each in items if each not in planted]
