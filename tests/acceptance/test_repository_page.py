"""The page about schedules in a repository: its commands do what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import demand_program
from tests.servers import run_to_end

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "in-a-repository.md").read_text(encoding="utf-8")
_BLOCKS = re.findall(r"```yaml\n(.*?)```", _PAGE, re.DOTALL)
_WORKFLOW, _HOOKS = map(yaml.safe_load, _BLOCKS)


def write(place: Path, name: str, **when: Any) -> None:
    document = {"name": name, "operations": {"publish": {"data": True}}, "when": when}
    (place / f"{name}.json").write_text(json.dumps(document))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Give a repository whose branch moves one action and adds another."""
    demand_program("git")
    schedules = tmp_path / "mine" / "schedules"
    schedules.mkdir(parents=True)
    (schedules / "app.json").write_text('{"uid": "sales", "name": "Sales"}')
    write(schedules, "report", cron_rule="0 7 * * *")
    git = ("git", "-c", "user.name=me", "-c", "user.email=me@example.com")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        ("commit", "-qm", "a"),
    ):
        subprocess.run([*git, *arguments], cwd=schedules.parent, check=True)
    write(schedules, "report", cron_rule="0 8 * * *")
    write(schedules, "hourly", every="PT1H")
    return schedules.parent


def run(
    script: str, repository: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **{key: str(value) for key, value in _WORKFLOW["jobs"]["check"]["env"].items()},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(repository.parent),
        "MINUTEHAND_HOME": str(repository.parent / "home"),
        "GITHUB_STEP_SUMMARY": str(repository.parent / "summary"),
    }
    line = ["bash", "-e", "-c", script, "bash", *arguments]
    return run_to_end(line, environ=environment, cwd=repository)


def check(repository: Path, base: str = "main") -> str:
    """Return what the check prints for reviewers of a change of *base*."""
    steps = [
        each["run"] for each in _WORKFLOW["jobs"]["check"]["steps"] if "run" in each
    ]
    _install, *scripts = steps
    scripts = [f"BASE={base}\n{script}" for script in scripts]
    answers = [run(script, repository) for script in scripts]

    assert [0] * len(scripts) == [each.returncode for each in answers], answers
    return (repository.parent / "summary").read_text()


def test_check_tells_what_a_change_would_do(repository: Path) -> None:
    """Which runs move, and which appear; nothing but a file is needed for it."""
    summary = check(repository)

    # Between seven and eight the first of them has run and is not to move any more.
    assert re.search(r"\b(30|29) moved, the first from", summary)
    assert "720 added, from" in summary
    assert "Would be: 1 created, 1 changed." in summary


def test_check_of_the_change_that_brings_the_folder(repository: Path) -> None:
    """There is nothing yet, so all would be created."""
    made = run(
        "git -c user.name=me -c user.email=me@example.com"
        " commit-tree -m none $(git mktree </dev/null)",
        repository,
    )

    assert "Would be: 2 created." in check(repository, made.stdout.strip())


def test_hook_refuses_what_the_door_refuses(repository: Path) -> None:
    """Of many files, the one that is wrong is named."""
    (hook,) = _HOOKS["repos"][0]["hooks"]
    files = [f"schedules/{name}.json" for name in ("report", "hourly")]
    assert all(re.search(hook["files"], each) for each in files)
    assert re.search(hook["exclude"], "schedules/app.json")
    script = f'{hook["entry"]} "$@"'

    assert run(script, repository, *files).returncode == 0
    write(repository / "schedules", "hourly", cron_rule="0 25 * * *")
    answer = run(script, repository, *files)

    assert answer.returncode != 0
    assert "/when/cron_rule" in answer.stderr
    assert "in schedules/hourly.json" in answer.stderr


def test_schema_for_editors_is_no_action_of_the_folder(repository: Path) -> None:
    """The folder is applied with it, and a document may name it."""
    (command,) = re.findall(r"`(minutehand schema > \S+)`", _PAGE)
    ((key, named),) = re.findall(r'`"(\$schema)": "(\S+)"`', _PAGE)
    place = repository / "schedules" / "report.json"
    place.write_text(json.dumps({key: named} | json.loads(place.read_text())))
    apply = "minutehand apps apply schedules && minutehand actions apply schedules"

    answer = run(f"{command} && {apply} --app sales", repository)

    assert 0 == answer.returncode, answer.stderr
    assert (place.parent / named).resolve().is_file()
