"""
Compare Minutehand with other schedulers, on servers of its own, in one run.

``make bench`` runs it as ``python -m benchmarks``. Figures of one run are comparable
with each other, and with no other run. Prints a table, and draws docs/benchmark.svg.
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
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TypeVar

from benchmarks.case import (
    APART,
    CAP_S,
    LIBRARIES,
    PEERS,
    WITH_APART,
    Result,
    make_peer,
)
from benchmarks.command import run_command
from benchmarks.picture import draw_rates
from benchmarks.servers import Servers, empty, run_servers, to_environment

PICTURE = Path(__file__).parents[1] / "docs" / "benchmark.svg"

SIZES = (1_000, 10_000, 100_000, 1_000_000)

#: Of those registered: all, one in a hundred, none.
SHARES = (1.0, 0.01, 0.0)

#: What ``--quick`` measures, in some two minutes.
QUICK_SIZES = (1_000,)
QUICK_SHARES = (1.0, 0.0)
QUICK_CAP_S = 5.0

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
    "idle wake ms": "{idle_ms:,.2f}",
    "idle CPU ms/min": "{0.idle_cpu_ms_a_minute:,.1f}",
    "memory MB": "{0.memory_mb:,.0f}",
}

_LEGEND = """\
first s, last s   from the due instant until that message was in the broker
  ~, never        extrapolated: the scheduler was stopped after {cap_s:g} s
idle              with nothing due: one look around; what a minute of looks costs
memory MB         of the scheduler's process, at its most"""

_Number = TypeVar("_Number", int, float)


def run_case(
    servers: Servers, name: str, registered: int, due: int, cap_s: float
) -> Result | str:
    """Return what was measured, or why nothing was."""
    servers = empty(servers)
    if registered > make_peer(name, servers, registered, due).most:
        return "not tried: registering and loading so many would take too long"
    output = ""
    for what in ("register", "run"):
        case = [what, name, registered, due, cap_s]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.case", *map(str, case)],
                env=to_environment(servers),
                capture_output=True,
                check=True,
                text=True,
                timeout=CASE_S,
            )
        except subprocess.TimeoutExpired:
            return f"given up after {CASE_S} s ({what})"
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines()
            return f"failed ({what}): {lines[-1] if lines else error.returncode}"
        output = done.stdout
    return Result(**json.loads(output.splitlines()[-1]))


def format_row(result: Result) -> list[str]:
    """Return the cells of *result*; empty where nothing was measured."""
    cells = []
    idle_ms = None if result.idle_wake_s is None else result.idle_wake_s * 1000
    for heading, template in _COLUMNS.items():
        try:
            cells.append(template.format(result, idle_ms=idle_ms))
        except TypeError:  # None has no decimals
            cells.append(_guess_last(result) if heading == "last s" else "")
    return cells


def _guess_last(result: Result) -> str:
    """Return when the last would have been sent, if the scheduler was stopped."""
    if not result.due:
        return ""
    guess = result.estimated_last_s
    return "never" if guess is None else f"~{guess:,.0f}"


def print_row(cells: Sequence[str]) -> None:
    """Print *cells* below their headings."""
    widths = [20, *(max(len(heading) + 2, 11) for heading in list(_COLUMNS)[1:])]
    pairs = zip(cells, widths, strict=False)
    print("".join(cell.rjust(width) for cell, width in pairs), flush=True)


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a thousand of each, in some two minutes, and no picture",
    )
    parser.add_argument(
        "--sizes", type=_list_of(int, 1), help="how many are registered"
    )
    parser.add_argument(
        "--shares", type=_list_of(float, 0, 1), help="of those registered that are due"
    )
    parser.add_argument("--peers", type=_read_peers, default=list(PEERS))
    parser.add_argument(
        "--cap", type=float, help="seconds until a scheduler is stopped"
    )
    parser.add_argument("--rounds", type=int, default=1, help="of the whole table")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--picture", type=Path, help=f"file, {PICTURE.name} by default")
    options = parser.parse_args(arguments)
    if missing := [name for name in options.peers if not is_installed(name)]:
        parser.error(
            f"{', '.join(missing)} cannot be imported. Install requirements-bench.lock,"
            " or run: make bench"
        )
    quick = options.quick
    options.sizes = options.sizes or (QUICK_SIZES if quick else SIZES)
    options.shares = options.shares or (QUICK_SHARES if quick else SHARES)
    options.cap = options.cap or (QUICK_CAP_S if quick else CAP_S)
    if options.picture is None and not quick:
        options.picture = PICTURE
    return options


def _list_of(
    kind: type[_Number], least: float, most: float = 1e9
) -> Callable[[str], list[_Number]]:
    def read(text: str) -> list[_Number]:
        try:
            numbers = [kind(part.replace("_", "")) for part in text.split(",")]
        except ValueError:
            msg = f"{text!r} is no list of numbers, as in 1000,10000"
            raise argparse.ArgumentTypeError(msg) from None
        if any(not least <= number <= most for number in numbers):
            msg = f"{text!r} must lie between {least:g} and {most:g}"
            raise argparse.ArgumentTypeError(msg)
        return numbers

    return read


def _read_peers(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PEERS:
            msg = f"{name!r} is none of {', '.join(PEERS)}"
            raise argparse.ArgumentTypeError(msg)
    return names


def is_installed(peer: str) -> bool:
    """Tell whether the libraries of *peer* are there, without importing them."""
    places = [APART] if peer in WITH_APART else sys.path
    return all(PathFinder.find_spec(name, places) for name in LIBRARIES.get(peer, ()))


def run_all(options: argparse.Namespace, results: list[Result]) -> None:
    """Run the cases, the schedulers in turn; print them, and add them to *results*."""
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores\n")
    print_row(list(_COLUMNS))
    grid = [
        (registered, round(registered * share), name)
        for _ in range(options.rounds)
        for registered in options.sizes
        for share in options.shares
        for name in options.peers
    ]
    with run_servers() as servers:
        for registered, due, name in grid:
            found = run_case(servers, name, registered, due, options.cap)
            if isinstance(found, str):
                print_row([name, f"{registered:,}", f"{due:,}", f"  {found}"])
                continue
            print_row(format_row(found))
            results.append(found)
    print("\n" + _LEGEND.format(cap_s=options.cap))


def main() -> int:
    """Run the cases; print, keep and draw what they give; return the exit code."""
    options = read_options()
    results: list[Result] = []
    try:
        run_all(options, results)
    finally:
        if options.json and results:
            rows = [asdict(result) for result in results]
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.picture:
        options.picture.write_text(draw_rates(results))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
