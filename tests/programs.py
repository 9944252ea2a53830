"""
Programs that some tests need beside Python, and what is said where they are missing.

A test asks with ``demand_program``; without the program it does not run, and is counted
in the last line, with the command that installs what is missing. Where
``MINUTEHAND_TEST_DEMAND_PROGRAMS`` is set, as in CI, it fails instead.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass

import pytest

#: Set, a missing program is an error.
DEMAND = "MINUTEHAND_TEST_DEMAND_PROGRAMS"

#: RabbitMQ's own folder before Debian's wrapper, which logs to where only one node may;
#: PgBouncer is where the PATH of most users ends.
_BEFORE, _BEHIND = "/usr/lib/rabbitmq/bin", "/usr/sbin"


@dataclass(frozen=True, slots=True)
class Program:
    """
    Something that a test starts.

    Args:
        package: Of Debian, which brings it.
        names: What it is called: by Debian, and by others.
        is_packaged: Whether Debian's is new enough; else it may be missing anywhere.
    """

    package: str
    names: tuple[str, ...]
    is_packaged: bool = True


#: Chromium without the windows that nobody sees, which take as long as the pages.
_SHELL = "chromium-headless-shell"

PROGRAMS = {
    program.package: program
    for program in (
        Program(_SHELL, (_SHELL, "chromium", "chromium-browser", "google-chrome")),
        Program("curl", ("curl",)),
        Program("git", ("git",)),
        Program("kubectl", ("kubectl",), is_packaged=False),
        Program("nodejs", ("node",)),
        Program("pgbouncer", ("pgbouncer",)),
        Program("rabbitmq-server", ("rabbitmq-server",)),
        Program("systemd", ("systemd-analyze",)),
    )
}

_WANTED = "needs the program of "


def find_program(package: str) -> str | None:
    """Return the path of what *package* brings."""
    folders = [os.environ["PATH"], _BEHIND]
    if package == "rabbitmq-server":
        folders.insert(0, _BEFORE)
    path = os.pathsep.join(folders)
    found = (shutil.which(name, path=path) for name in PROGRAMS[package].names)
    return next(filter(None, found), None)


def demand_program(package: str) -> str:
    """Return its path; without it the test does not run, or fails where all must."""
    if (found := find_program(package)) is None:
        if os.environ.get(DEMAND) and PROGRAMS[package].is_packaged:
            pytest.fail(f"{package} is not installed; {_install([package])}")
        pytest.skip(f"{_WANTED}{package}")
    return found


def tell_missing(reasons: list[str]) -> str | None:
    """
    Return the line that counts the tests without a program; None: there are none.

    Args:
        reasons: Why each test that was skipped was.
    """
    wanted = Counter(
        reason.rpartition(_WANTED)[2] for reason in reasons if _WANTED in reason
    )
    if not wanted:
        return None
    counts = ", ".join(f"{count} for want of {name}" for name, count in wanted.items())
    return f"Tests that did not run: {counts}. {_install([*wanted])}"


def _install(packages: list[str]) -> str:
    names = " ".join(each for each in sorted(packages) if PROGRAMS[each].is_packaged)
    return (
        f"On Debian: apt-get install --no-install-recommends {names}" if names else ""
    )
