"""
Compare Minutehand with other schedulers, on servers of its own, in one run.

``make bench`` runs it as ``python -m benchmarks``. Figures of one run are comparable
with each other, and with no other run. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.case import CAP_S, PEERS, Result, make_peer
from benchmarks.command import make_parser, run_command
from benchmarks.servers import Servers, empty, run_servers

SIZES = (1_000, 10_000, 100_000, 1_000_000)

#: Of those registered: all, one in a hundred, none.
SHARES = (1.0, 0.01, 0.0)

#: A case that takes longer, registering included, is given up.
CASE_S = 400

_COLUMNS = {
    "scheduler": "{0.peer}",
    "registered": "{0.registered:,}",
    "due": "{0.due:,}",
    "sent": "{0.sent:,}",
    "per s": "{0.per_s:,.0f}",
    "first s": "{0.first_s:.3f}",
    "last s": "{0.last_s:,.3f}",
    "CPU ms each": "{0.cpu_ms_each:.3f}",
    "idle wake ms": "{0.idle_wake_ms:,.2f}",
    "idle CPU ms/min": "{0.idle_cpu_ms_a_minute:,.1f}",
    "memory MB": "{0.memory_mb:,.0f}",
}

_LEGEND = """\
first s, last s   from the due instant until that message was in the broker
  ~, never        extrapolated: the scheduler was stopped after {cap_s:g} s
idle              with nothing due: one look around; what a minute of looks costs
memory MB         of the scheduler's process, at its most"""


def run_case(
    servers: Servers, name: str, registered: int, due: int, cap_s: float
) -> Result | str:
    servers = empty(servers)
    try:
        most = make_peer(name, servers, registered, due).most
    except ImportError as error:
        return f"{error}. Install requirements-bench.lock, or run: make bench"
    if registered > most:
        return "not tried: registering and loading so many would take too long"
    output = ""
    for what in ("register", "run"):
        case = [what, name, registered, due, cap_s]
        try:
            output = subprocess.run(
                [sys.executable, "-m", "benchmarks.case", *map(str, case)],
                env={**os.environ, **servers.settings},
                capture_output=True,
                check=True,
                text=True,
                timeout=CASE_S,
            ).stdout
        except subprocess.TimeoutExpired:
            return f"given up after {CASE_S} s ({what})"
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines()
            return f"failed ({what}): {lines[-1] if lines else error.returncode}"
    return Result(**json.loads(output.splitlines()[-1]))


def format_row(result: Result) -> list[str]:
    """Return the cells of *result*; empty where nothing was measured."""
    cells = []
    for heading, template in _COLUMNS.items():
        try:
            cells.append(template.format(result))
        except TypeError:  # None has no decimals
            is_guess = heading == "last s" and result.due
            cells.append(result.guessed_last if is_guess else "")
    return cells


def print_row(cells: Sequence[str]) -> None:
    widths = [20, *(max(len(heading) + 2, 11) for heading in list(_COLUMNS)[1:])]
    pairs = zip(cells, widths, strict=False)
    print("".join(cell.rjust(width) for cell, width in pairs), flush=True)


def read_options() -> argparse.Namespace:
    parser = make_parser("benchmarks", __doc__)

    def add(name: str, kind: Callable[[str], object], **more: object) -> None:
        parser.add_argument(name, type=kind, **more)

    add("--sizes", _list_of(int), default=SIZES, help="how many are registered")
    told = "of those registered that are due, from 0 to 1"
    add("--shares", _list_of(float), default=SHARES, help=told)
    add("--peers", _list_of(str), default=list(PEERS), help=",".join(PEERS))
    add("--cap", float, default=CAP_S, help="seconds until a scheduler is stopped")
    add("--rounds", int, default=1, help="of the whole table")
    add("--json", Path, help="file for all figures")
    options = parser.parse_args()
    if unknown := set(options.peers) - set(PEERS):
        parser.error(f"{min(unknown)!r} is none of {', '.join(PEERS)}")
    return options


def _list_of(kind: Callable[[str], object]) -> Callable[[str], list[object]]:
    def list_of_values(text: str) -> list[object]:
        return [kind(part) for part in text.split(",")]

    return list_of_values


def run_all(options: argparse.Namespace, results: list[Result]) -> None:
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores\n")
    print_row(list(_COLUMNS))
    grid = [
        (name, registered, round(registered * share))
        for _ in range(options.rounds)
        for registered in options.sizes
        for share in options.shares
        for name in options.peers
    ]
    with run_servers() as servers:
        for name, registered, due in grid:
            found = run_case(servers, name, registered, due, options.cap)
            if isinstance(found, str):
                print_row([name, f"{registered:,}", f"{due:,}", f"  {found}"])
                continue
            print_row(format_row(found))
            results.append(found)
    print("\n" + _LEGEND.format(cap_s=options.cap))


def main() -> int:
    options = read_options()
    results: list[Result] = []
    try:
        run_all(options, results)
    finally:
        if options.json and results:
            rows = [asdict(result) for result in results]
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
