"""What ``pip install`` and ``pipx install`` give: the wheel has all that it needs."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import demand_program
from tests.servers import ROOT

pytestmark = pytest.mark.integration

Run = Callable[..., subprocess.CompletedProcess[str]]

#: What a wheel must have beside modules, and what only a checkout has.
_NEEDED = (
    "cli/examples/weekly-update.json",
    "migrations/script.py.mako",
    "web/templates/frame.html",
)
_FOREIGN = ("tests/", "benchmarks/", "docs/", "build/")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of a copy, since setuptools writes beside what it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    git = demand_program("git")
    listed = subprocess.run(
        [git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file() and not name.startswith(_FOREIGN):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    build = (
        "import sys; from setuptools import build_meta;"
        "print(build_meta.build_wheel(sys.argv[1]))"
    )
    subprocess.run(
        [sys.executable, "-c", build, str(folder)],
        cwd=copy,
        capture_output=True,
        check=True,
        timeout=300,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Give a function that calls what is installed, away from this folder."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
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
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=home,
            env={"PATH": "/usr/bin:/bin", "MINUTEHAND_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return run


def test_wheel_has_what_it_needs_and_no_more(wheel: Path):
    """Templates, examples and migrations are in it; tests and documentation are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    tracked = subprocess.run(
        ["git", "ls-files", "web", "cli", "migrations", "operations", "models"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
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
