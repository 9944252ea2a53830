"""
Long looks at code that is as it was are left out, until it is another.

A seed is the same world as long as the core, and the simulation, are what they were; a
page looks the same as long as what draws it is. `make record` looks at all that is not
as recorded and, if each passed, writes the fingerprint of that code into a file beside
the tests. While it is still that of the code, `make test` leaves them out; they run if
the command names their folder, and each night.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_ROOT = _HERE.parent


@dataclass(frozen=True, slots=True)
class Look:
    """
    Tests that a record stands for.

    Args:
        marker: Of these tests.
        folder: Where they are, with the record.
        sources: Files and folders that decide what they see, besides the locks.
    """

    marker: str
    folder: Path
    sources: tuple[str, ...]

    @property
    def record(self) -> Path:
        """The fingerprint of the code with which all of them passed last."""
        return self.folder / "recorded.txt"

    @property
    def is_current(self) -> bool:
        """Whether the code is what it was then."""
        kept = self.record.read_text() if self.record.exists() else ""
        return kept.strip() == self.fingerprint()

    def fingerprint(self) -> str:
        """Return what differs as soon as any file of the code does."""
        digest = hashlib.sha256()
        for name in (*self.sources, "requirements.lock", "requirements-dev.lock"):
            top = _ROOT / name
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                # Others write bytecode meanwhile, and editors what they keep.
                if "__pycache__" in path.parts or path.name.startswith("."):
                    continue
                if path.is_file() and path != self.record:
                    content = hashlib.sha256(path.read_bytes()).hexdigest()
                    digest.update(f"{path.relative_to(_ROOT)} {content}\n".encode())
        return digest.hexdigest()

    def find(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Return those of *items* that it stands for."""
        here = (each for each in items if each.path.is_relative_to(self.folder))
        return [each for each in here if each.get_closest_marker(self.marker)]

    def write(self, jobs: str) -> int:
        """Run the tests and, if each passed, write of which code; return their end."""
        code = self.fingerprint()
        run = ("pytest", "--quiet", "-m", self.marker, str(self.folder), "-n", jobs)
        command = [sys.executable, "-m", *run, "--dist", "worksteal"]
        # What is skipped for want of a program has not passed.
        environment = {**os.environ, "MINUTEHAND_TEST_DEMAND_PROGRAMS": "1"}
        done = subprocess.run(command, cwd=_ROOT, env=environment, check=False)
        if done.returncode == 0 and code == self.fingerprint():
            self.record.write_text(f"{code}\n")
        return done.returncode


LOOKS = (
    Look(
        "world",
        _HERE / "simulation",
        (
            *("actions", "celery_app", "dispatch", "models", "operations"),
            *("scheduler_server.py", "settings.py", "telemetry.py", "tracing.py"),
            *("tests/simulation", "tests/unit/operations/fakes.py"),
        ),
    ),
    Look(
        "look",
        _HERE / "browser",
        (
            *("models", "overview", "serving", "web", "tests/browser"),
            *("tests/database.py", "tests/scheduling.py", "tests/seeded"),
        ),
    ),
)


def leave_out_recorded(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that would see the same again."""
    asked = config.option.keyword or config.option.markexpr
    if asked or os.environ.get("MINUTEHAND_TEST_ALL"):
        return
    here = config.invocation_params.dir
    named = [here / argument.partition("::")[0] for argument in config.args]
    for look in LOOKS:
        is_named = any(each.is_relative_to(look.folder) for each in named)
        if (found := look.find(items)) and not is_named and look.is_current:
            config.hook.pytest_deselected(items=found)
            items[:] = [each for each in items if each not in found]


def main() -> int:
    """Record all that is not as recorded; other than 0 if a test failed."""
    [jobs] = sys.argv[1:] or [str(os.cpu_count())]
    ends = [look.write(jobs) for look in LOOKS if not look.is_current]
    return int(any(ends))


if __name__ == "__main__":
    sys.exit(main())
