"""
README.md: each command it shows does what the line beside it says.

The commands are taken from the file, and run as they stand there, those of production
with servers of the tests in the place of those that it names.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from actions.small_apps.apply import ApplyTerms, apply_small_app
from cli.main import main
from dispatch.manual_runs import run_now
from models.database.engine import make_engine
from models.door.app_documents import read_small_app
from settings import read_settings
from tests.database import write_by
from tests.scheduling import get, post
from tests.servers import (
    ROOT,
    find_free_port,
    is_listening,
    run_to_end,
    run_warm,
    wait_until,
)

README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent

EXAMPLES = ROOT / "docs" / "examples"

#: Stands between the outputs of two commands.
_MARK = "-- next --"


def read_blocks(language: str) -> list[str]:
    """Return the fenced blocks of the README that are in *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


#: One test for each; another block would end the collection here.
MAKE, EMBEDDED, PRODUCTION = map(str.splitlines, read_blocks("sh"))


def strip_comment(line: str) -> str:
    """Return the command of a line that is one word after the other."""
    return shlex.join(shlex.split(line, comments=True))


@dataclass(frozen=True, slots=True)
class Home:
    """A user whose home is *folder*; *environ* is what they have exported."""

    folder: Path
    environ: dict[str, str]

    @property
    def variables(self) -> dict[str, str]:
        """All variables that their processes see."""
        path = f"{BIN}:{os.environ['PATH']}"
        return {"HOME": str(self.folder), "PATH": path, **self.environ}

    def run(self, command: str, *, code: int = 0) -> str:
        """Run *command* in a shell; return its output if it ended with *code*."""
        line = ["bash", "-c", command]
        done = run_to_end(line, environ=self.variables, cwd=self.folder)

        assert code == done.returncode, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def start(self, command: str) -> Iterator[None]:
        """Run *command* in the checkout for the length of the block."""
        program, *arguments = shlex.split(command)
        assert (BIN / program).exists()
        begin = (sys.executable, *(("-m", "cli.main") if program != "python" else ()))
        log = self.folder / f"{len(list(self.folder.glob('*.log')))}.log"
        with run_warm([*begin, *arguments], log=log, environ=self.variables):
            yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Give a user who has set nothing."""
    for name in os.environ:
        if name.startswith("MINUTEHAND_"):
            monkeypatch.delenv(name)
    return Home(tmp_path, {})


def test_the_action_it_shows_is_the_example() -> None:
    """What is posted below is what was read above."""
    (document,) = read_blocks("json")

    assert (EXAMPLES / "action.json").read_text() == document


def test_entry_of_celery_beat_becomes_the_document_beside_it(home: Home) -> None:
    """An import writes what the README shows, and says that it is the same."""
    (entries,), (document,) = read_blocks("python"), read_blocks("jsonc")
    (home.folder / "shop.py").write_text(
        "from celery import Celery\n"
        "from celery.schedules import crontab\n"
        f"{entries}"
        'app = Celery("shop", broker="redis://localhost")\n'
        'app.conf.update(timezone="Europe/Paris", beat_schedule=beat_schedule)\n'
    )

    told = home.run("minutehand import celery-beat shop --out actions")

    written = json.loads((home.folder / "actions" / "report.json").read_text())
    assert "1 exact, 0 differs, 0 cannot be" in told
    assert {**json.loads(document), "active": True} == written


@pytest.mark.parametrize(
    ("command", "program"),
    [*zip(map(strip_comment, MAKE), ("minutehand", "pytest"), strict=True)],
)
def test_targets_run_programs_that_are_there(command: str, program: str) -> None:
    """
    The recipe of the target ends in a program of the environment that starts.

    test_demo.py runs the demo; ``make test`` runs this test.
    """
    line = [*shlex.split(command), "--dry-run", "--always-make", "--no-print-directory"]
    # inside of ``make test`` others would be its own
    done = run_to_end(line, environ={"PATH": os.environ["PATH"]})
    assert 0 == done.returncode, done.stderr
    last = Path(shlex.split(done.stdout.splitlines()[-1])[0])

    assert Path(".venv/bin") / program == last
    assert shutil.which(program, path=str(BIN))


def test_embedded_commands_do_what_they_say(home: Home) -> None:
    """To the letter, in a shell that knows none of our programs."""
    (home.folder / "docs").symlink_to(ROOT / "docs")
    (home.folder / ".venv").symlink_to(sys.prefix)
    lines = [each for line in EMBEDDED for each in (line, f"echo {_MARK}")]
    # What is left in the background if a line fails.
    lines.insert(0, "set -e; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT")
    home.environ["PATH"] = "/usr/bin:/bin"

    outputs = home.run("\n".join(lines)).split(f"{_MARK}\n")

    _, _, applied, previewed, _, _, listed, shown, *answers = outputs
    explained, before, audited, *rest = answers
    operation = json.loads(shown)
    assert ["", ""] == rest
    assert "small app sales" in applied
    assert "Mondays at 07:00, Europe/Paris" in previewed
    assert operation["id"][:8] in listed
    assert ["refresh", "publish", "send_execsum"] == [
        step["name"] for step in operation["steps"]
    ]
    assert {"succeeded"} == {step["state"] for step in operation["steps"]}
    assert 2 == len(list((home.folder / ".minutehand" / "mails").iterdir()))
    assert "will run" in explained
    # It asks about a day on which nobody had the action yet.
    assert "not effective yet" in before
    assert ", 0 faults, " in audited


@pytest.mark.parametrize("unmigrated_url", ["postgresql"], indirect=True)
def test_production_commands_do_what_they_say(
    home: Home, unmigrated_url: str, redis_url: str
) -> None:
    """From an empty database to a heavy and a quick operation that each worker did."""
    commands = [strip_comment(line) for line in PRODUCTION]
    exports = [each for each in commands if each.startswith("export ")]
    migrate, scheduler, quick, heavy, web, status = commands[len(exports) :]
    words = [word for each in exports for word in shlex.split(each)[1:]]
    exported = dict(each.split("=", 1) for each in words)
    read_settings(exported, env_file=None)  # would refuse what is no setting
    mails, workspace = str(home.folder / "mails"), str(home.folder / "workspace")
    ours = (unmigrated_url, redis_url, mails, workspace)
    home.environ.update(zip(exported, ours, strict=True))
    # Another test may have the port that the comment names.
    port = find_free_port()
    home.environ["MINUTEHAND_WEB_ADDRESS"] = f"127.0.0.1:{port}"
    document = json.loads((EXAMPLES / "action.json").read_text())
    other = {**document, "name": "summary", "operations": {"send_execsum": True}}
    engine = make_engine(unmigrated_url)

    with ExitStack() as processes:
        home.run(migrate)
        for command in (scheduler, quick, heavy, web):
            processes.enter_context(home.start(command))
        processes.callback(engine.dispose)
        app = read_small_app((EXAMPLES / "app.json").read_bytes(), uid="sales")
        write_by(engine, apply_small_app, app, ApplyTerms(EXAMPLES, by="ada"))
        uids = [post(engine, "sales", **each).uid for each in (document, other)]
        ids = [run_now(engine, uid) for uid in uids]
        wait_until(
            lambda: all(get(engine, each).finished_at for each in ids), what="both"
        )
        rows = [get(engine, each) for each in ids]
        states = [(row.queue, row.state) for row in rows]
        told = home.run(status)
        wait_until(lambda: is_listening(port), what="the HTTP API")
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            assert answer.status == 200

    assert [("heavy", "succeeded"), ("quick", "succeeded")] == states
    assert re.search(r"^leader +\S+ \(pid \d+\)", told, re.MULTILINE)
    assert re.search(r"^fence +1\b", told, re.MULTILINE)


def read_when_table() -> list[tuple[str, str]]:
    lines = README.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("| `when` |"))
    rows = takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [
        (cells[0].strip(), cells[1].strip().strip("`"))
        for cells in (row.strip("|").split("|") for row in rows)
    ]


#: The first instants since 2026 at which each example is due, by its third column.
DUE = {
    "cron": ["2026-01-05T06:00:00Z", "2026-01-12T06:00:00Z"],
    # The last days of January and February 2026 are Saturdays.
    "calendar": ["2026-03-31T09:00:00Z", "2026-04-30T09:00:00Z"],
    "interval": ["2026-01-31T09:00:00Z", "2026-02-28T09:00:00Z"],
    "due date": ["2026-12-01T08:00:00Z"],
    # Both months begin with two days before a weekend, or with a Sunday.
    "working day": ["2026-01-07T09:00:00Z", "2026-02-06T09:00:00Z"],
    # Due when somebody does something, or something has ended.
    "on an event": [],
    "after an event": [],
    "after an action": [],
}


@pytest.mark.parametrize(("kind", "when"), read_when_table())
def test_each_when_is_due_as_the_table_says(
    kind: str, when: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``preview`` takes every example, and shows what stands beside it."""
    path = tmp_path / "action.json"
    action = {"name": kind, "operations": {"send_execsum": True}}
    path.write_text(json.dumps({**action, "when": json.loads(when)}))
    span = ("--from", "2026-01-01T00:00Z", "--count", "2", "--json")

    code = main(["preview", str(path), *span])

    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert 0 == code
    assert DUE[kind] == [each["utc"] for each in printed["occurrences"]]


def test_page_is_quickly_read() -> None:
    """Five rows of figures are the most."""
    _, *tables = re.split(r"^\|[-|]+\|\n", README, flags=re.MULTILINE)
    figures = [
        list(takewhile(lambda line: line.startswith("|"), each.split("\n")))
        for each in tables
    ]

    assert 5 >= max(len(rows) for rows in figures if re.search(r"\| \d", rows[0]))
