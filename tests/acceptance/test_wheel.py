"""What ``pip install`` and ``pipx install`` give: the wheel has all that it needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers import ROOT, run_to_end

Run = Callable[..., subprocess.CompletedProcess[str]]

#: What a wheel must have beside modules, and what only a checkout has.
_NEEDED = (
    "cli/examples/weekly-update.json",
    "migrations/script.py.mako",
    "web/templates/frame.html",
)
#: A line of a lock that holds on every machine or on some, and a row of a table.
_PINNED = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)( ; .*)? \\$", re.MULTILINE)
_ROW = re.compile(r"^\| ([\w.-]+) +\| ([\w.]+) ", re.MULTILINE)
_FOREIGN = ("tests/", "benchmarks/", "docs/", "build/")


def build(source: Path, into: Path, *targets: str) -> dict[str, Path]:
    """Build what `make dist` builds from *source*; return it by its suffix."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", into, *targets],
        cwd=source,
        env=os.environ | {"SOURCE_DATE_EPOCH": "1795500000"},
        capture_output=True,
        check=True,
        timeout=300,
    )
    return {path.suffix: path for path in into.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: dict[str, Path]) -> Path:
    return built[".whl"]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Give a function that calls what is installed, away from this folder."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)  # noqa: S202 - what this test built
    home = tmp_path_factory.mktemp("home")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        # The interpreter's own packages, without the checkout that is among them.
        code = (
            "import sys;"
            f"sys.path[:] = [{str(target)!r}] + [p for p in sys.path"
            f" if p not in ('', {str(ROOT)!r})];"
            "from cli.main import main; import cli;"
            f"assert cli.__file__.startswith({str(target)!r}), cli.__file__;"
            "sys.exit(main())"
        )
        environ = {"PATH": "/usr/bin:/bin", "MINUTEHAND_HOME": str(home)}
        line = [sys.executable, "-c", code, *arguments]
        return run_to_end(line, environ=environ, cwd=home)

    return run


def test_wheel_has_what_it_needs_and_no_more(wheel: Path):
    """Templates, examples and migrations are in it; tests and documentation are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    rooms = ("web", "cli", "migrations", "operations", "models")
    tracked = run_to_end(["git", "ls-files", *rooms]).stdout.splitlines()
    assert tracked
    assert set(_NEEDED) <= names
    assert set(tracked) <= names
    assert not [name for name in names if name.startswith(_FOREIGN)]


def test_installed_program_works_away_from_the_checkout(installed: Run):
    """Help, a preview of an example, a database of its own, and a page's templates."""
    example = str(ROOT / "cli" / "examples" / "weekly-update.json")

    assert 0 == installed("--help").returncode
    seen = installed("preview", example, "--json")
    assert "Mondays at 07:00, Europe/Paris" == json.loads(seen.stdout)["sentence"]
    listed = installed("apps", "list")
    assert (0, "") == (listed.returncode, listed.stdout), listed.stderr


def test_wheel_of_the_sdist_is_the_same_bytes(built: dict[str, Path], tmp_path: Path):
    """Wherever and whenever somebody builds one version, they get one file."""
    with tarfile.open(built[".gz"]) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    again = build(source, tmp_path / "dist", "--target", "wheel")

    assert built[".whl"].read_bytes() == again[".whl"].read_bytes()


def test_licenses_are_those_of_what_is_installed():
    """docs/licenses.md has each package of the lock, in its version."""
    page = (ROOT / "docs/licenses.md").read_text()
    lock = (ROOT / "requirements-image.lock").read_text()
    pinned = _PINNED.findall(lock)
    rows = {
        (re.sub(r"[-_.]+", "-", name).lower(), version)
        for name, version in _ROW.findall(page)
    }

    assert len(pinned) > len(rows) / 2
    assert {(n.lower(), v) for n, v, only in pinned if not only} <= rows
