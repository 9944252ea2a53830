"""deploy/systemd: units that systemd takes, with few rights and commands that exist."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from cli.main import main
from settings import PREFIX, Settings, is_secret
from tests.programs import demand_program
from tests.servers import ROOT, run_to_end

UNITS = ROOT / "deploy" / "systemd"
NAMES = ("scheduler", "worker@quick", "web", "migrate")

#: Systemd's own scale, from 0 (none) to 10 (all that there is).
MOST_EXPOSED = 2.0


def find_unit(name: str) -> Path:
    """Return the file of a unit, or the template of an instance."""
    return UNITS / f"minutehand-{re.sub('@.*', '@', name)}.service"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a root folder with the units and a program where they expect it."""
    folder = tmp_path_factory.mktemp("root")
    units = folder / "etc/systemd/system"
    shutil.copytree(UNITS, units)
    shutil.copy(
        units / "minutehand-worker@.service", units / "minutehand-worker@quick.service"
    )
    program = folder / "opt/minutehand/bin/minutehand"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name in ("network-online", "multi-user", "sysinit", "basic", "shutdown"):
        (units / f"{name}.target").write_text(f"[Unit]\nDescription={name}\n")
    return folder


def analyze(verb: str, root: Path, *arguments: str) -> str:
    """Return what systemd-analyze says, and why if it refuses."""
    program = demand_program("systemd")
    done = run_to_end([program, f"--root={root}", "--no-pager", verb, *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_unit_is_valid(root: Path, name: str) -> None:
    """Systemd has nothing to say of it."""
    unit = root / f"etc/systemd/system/minutehand-{name}.service"

    said = analyze("verify", root, "--man=no", str(unit)).splitlines()

    assert [line for line in said if "minutehand" in line] == []


@pytest.mark.parametrize("name", NAMES)
def test_unit_has_few_rights(root: Path, name: str) -> None:
    """A program that is taken over can do little, by systemd's own judgement."""
    said = analyze("security", root, "--offline=true", f"minutehand-{name}.service")

    (exposure,) = re.findall(r"exposure level for \S+: ([\d.]+)", said)
    assert float(exposure) <= MOST_EXPOSED


@pytest.mark.parametrize("name", NAMES)
def test_command_of_unit_exists(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its options: the help of the command knows each."""
    text = find_unit(name).read_text()
    (line,) = re.findall(
        r"^ExecStart=/opt/minutehand/bin/minutehand (.*)$", text, re.MULTILINE
    )
    command, *arguments = shlex.split(line)

    assert main([command, "--help"]) == 0
    told = capsys.readouterr().out
    assert [each for each in arguments if each[0] == "-" and each not in told] == []


def test_settings_of_units_exist() -> None:
    """Each secret is a setting that may be in a file, named as its credential."""
    text = "".join(path.read_text() for path in UNITS.rglob("*.*") if path.is_file())
    files = re.findall(r"(MINUTEHAND_\w+)_FILE=%d/(\w+)", text)

    assert {name for _, name in files} == set(
        re.findall(r"LoadCredential=(\w+):", text)
    )
    for variable, credential in files:
        assert variable.removeprefix(PREFIX).lower() == credential
        assert is_secret(credential)
    assert "home" in Settings.model_fields
