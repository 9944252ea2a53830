"""
What each command of an operator costs: user and system CPU, on a small SQLite file.

``python -m benchmarks.cli_commands [--rounds 5]``. Each command is a process, as on a
terminal, on an installation with one small app, one action and one operation. The least
of the rounds counts, since what others do at the same time only adds to it; the first
call, which compiles, is left out. Two rows are for comparison: Python alone, and what
all commands import.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.command import make_parser

_APP = {"uid": "shop"}
_ACTION = {
    "uid": "weekly",
    "name": "weekly update",
    "operations": {"refresh": True},
    "when": {"cron_rule": "0 7 * * Mon"},
}

#: What is asked many times a day. {operation} is the id of the one operation.
_COMMANDS = (
    "--version",
    "--help",
    "status",
    "doctor",
    "apps list",
    "apps show shop",
    "apps apply {folder}/app.json --dry-run",
    "actions list",
    "actions show weekly",
    "actions post {folder}/action.json --app shop --replace --dry-run",
    "actions pause weekly",
    "actions resume weekly",
    "preview {folder}/action.json",
    "operations list",
    "operations show {operation}",
    "operations state {operation}",
    "operations cancel --all --dry-run",
    "why weekly --at 2026-01-05T07:00Z",
    "load",
    "audit",
    "queues list",
    "workers list",
    "mails list",
    "backfills list",
    "keys list",
    "changes list",
    "tick --dry-run",
)

_MINUTEHAND = (sys.executable, "-m", "cli.main")


def measure(call: Sequence[str], environ: Mapping[str, str]) -> float:
    """Return the seconds of CPU that *call* takes, its own children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(call, env=environ, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(
        getattr(after, kind) - getattr(before, kind)
        for kind in ("ru_utime", "ru_stime")
    )


def measure_commands(rounds: int) -> list[tuple[str, float]]:
    """Return each command with the least seconds of CPU that it took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environ = {
            "PATH": os.environ["PATH"],
            "MINUTEHAND_HOME": str(folder / "home"),
            "COLUMNS": "80",
        }
        operation = _fill(folder, environ)
        calls = {
            "(python)": (sys.executable, "-c", "pass"),
            "(sqlalchemy, pydantic, typer, rich)": (
                sys.executable,
                "-c",
                "import sqlalchemy, pydantic, typer, rich.console",
            ),
        }
        for each in _COMMANDS:
            command = each.format(folder=folder, operation=operation)
            calls[each] = (*_MINUTEHAND, *command.split())
        return [(name, _least(call, environ, rounds)) for name, call in calls.items()]


def _least(call: Sequence[str], environ: Mapping[str, str], rounds: int) -> float:
    measure(call, environ)
    return min(measure(call, environ) for _ in range(rounds))


def _fill(folder: Path, environ: Mapping[str, str]) -> str:
    """Apply the small app, post the action, run it; return the id of that run."""
    for name, document in (("app", _APP), ("action", _ACTION)):
        (folder / f"{name}.json").write_text(json.dumps(document))
    printed = ""
    for call in (
        f"apps apply {folder}/app.json",
        f"actions post {folder}/action.json --app shop",
        "actions run weekly",
    ):
        printed = subprocess.run(
            [*_MINUTEHAND, *call.split()],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    return printed.strip()


def main() -> None:
    """Print the table."""
    parser = make_parser("cli_commands", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    for name, cpu_s in measure_commands(parser.parse_args().rounds):
        print(f"{cpu_s:5.2f} s  {name}")


if __name__ == "__main__":
    main()
