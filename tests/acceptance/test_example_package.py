"""
docs/examples/minutehand-extras: installed as its README says, it does what it promises.

It is installed into a folder of the test, without network, and that folder is on the
path of the programs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ROOT, run_process

pytestmark = [pytest.mark.integration, pytest.mark.slow]

EXAMPLE = ROOT / "docs" / "examples" / "minutehand-extras"
MINUTEHAND = (sys.executable, "-m", "cli.main")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder into which the package is installed."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    shutil.copytree(EXAMPLE, source)  # setuptools builds where the source is
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-index"),
        *("--no-deps", "--no-build-isolation", "--target", str(folder / "target")),
        str(source),
    ]
    subprocess.run(command, check=True, timeout=200)
    return folder / "target"


@pytest.fixture
def environ(installed: Path, tmp_path: Path) -> dict[str, str]:
    """Give the environment of an installation with nothing else set."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(installed))),
        "MINUTEHAND_HOME": str(tmp_path / "home"),
        "MINUTEHAND_WEB_ADDRESS": "none",
        "EXTRAS_NOTES": str(tmp_path),
    }


def call(environ: dict[str, str], *arguments: str, code: int = 0) -> str:
    """Run a command, which ends with *code*; return what it says: data, or errors."""
    done = subprocess.run(
        [*MINUTEHAND, *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert code == done.returncode, done.stderr
    return done.stdout or done.stderr


def test_step_source_and_rule_of_a_package_are_used(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """
    Previewed, posted and run: the domain is read, then reused, and the note is written.
    """
    action = str(EXAMPLE / "action.json")
    previewed: Any = json.loads(
        call(environ, "preview", action, "--from", "2026-11-22T00:00Z", "--json")
    )
    call(environ, "apps", "apply", str(EXAMPLE))
    posted = json.loads(
        call(environ, "actions", "post", action, "--app", "extras", "--json")
    )
    results = []
    with run_process(
        [*MINUTEHAND, "up"], log=tmp_path / "up.log", environ=environ
    ) as process:
        for _ in range(2):
            run = json.loads(
                call(environ, "actions", "run", posted["uid"], "--wait", "--json")
            )
            results.append({step["name"]: step["result"] for step in run["steps"]})
        assert process.poll() is None
    doctored = call(environ, "doctor", "--json", code=1)

    assert "2026-11-24T18:00:00Z" in json.dumps(previewed)
    first, second = results
    assert ["refresh", "write_note"] == list(first)
    assert (["numbers"], {"numbers": 3}) == (
        first["refresh"]["refreshed"],
        first["refresh"]["rows"],
    )
    assert ["numbers"] == second["refresh"]["reused"]
    assert {"file": "moon.txt"} == first["write_note"]
    assert 2 == (tmp_path / "moon.txt").read_text().count("the moon is full")
    assert "step 'write_note' of minutehand-extras 1.0" in doctored


def test_without_the_package_its_names_are_unknown(
    environ: dict[str, str],
) -> None:
    """
    Each place is told; nothing is stored.
    """
    told = call(
        {**environ, "PYTHONPATH": str(ROOT)},
        *("preview", str(EXAMPLE / "action.json")),
        code=3,
    )

    assert "'write_note' is not a known key" in told
    assert "'full_moon' is not a kind of time or event" in told
