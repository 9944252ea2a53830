"""
Compare Minutehand with other schedulers, on servers of its own, in one run.

``make bench`` runs it as ``python -m benchmarks``. Figures of one run are comparable
with each other, and with no other run. Prints a table, and draws docs/benchmark.svg.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.case import PEERS, Result, make_peer
from benchmarks.picture import draw
from benchmarks.servers import Servers, empty, run_servers, to_environment

PICTURE = Path(__file__).parents[1] / "docs" / "benchmark.svg"

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
    "first s": "{0.first_s:.3f}",
    "last s": "{0.last_s:.3f}",
    "per s": "{0.per_s:,.0f}",
    "CPU ms each": "{0.cpu_ms_each:.3f}",
    "idle wake ms": "{idle_ms:.2f}",
    "idle CPU ms/min": "{0.idle_cpu_ms_a_minute:.1f}",
    "memory MB": "{0.memory_mb:.0f}",
}


def run_case(servers: Servers, name: str, registered: int, due: int) -> Result | str:
    """Return what was measured, or why nothing was."""
    servers = empty(servers)
    if registered > make_peer(name, servers, registered, due).most:
        return "not tried"
    output = ""
    for what in ("register", "run"):
        command = [sys.executable, "-m", "benchmarks.case", what, name]
        try:
            done = subprocess.run(
                [*command, str(registered), str(due)],
                env=to_environment(servers),
                capture_output=True,
                check=True,
                text=True,
                timeout=CASE_S,
            )
        except subprocess.TimeoutExpired:
            return f"given up after {CASE_S} s"
        except subprocess.CalledProcessError as error:
            return f"failed: {error.stderr.strip()[-500:]}"
        output = done.stdout
    return Result(**json.loads(output.splitlines()[-1]))


def format_row(result: Result) -> list[str]:
    """Return the cells of *result*; empty where nothing was measured."""
    cells = []
    idle_ms = None if result.idle_wake_s is None else result.idle_wake_s * 1000
    for template in _COLUMNS.values():
        try:
            cells.append(template.format(result, idle_ms=idle_ms))
        except TypeError:  # None has no decimals
            cells.append("")
    return cells


def print_row(cells: list[str]) -> None:
    """Print *cells* below their headings."""
    widths = [20, *(max(len(heading) + 2, 12) for heading in list(_COLUMNS)[1:])]
    pairs = zip(cells, widths, strict=True)
    print("".join(cell.rjust(width) for cell, width in pairs), flush=True)


def read_options() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=1, help="whole runs; see --json")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--no-picture", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Run the cases, in turn; print, keep and draw what they give."""
    options = read_options()
    results: list[Result] = []
    print_row(list(_COLUMNS))
    with run_servers() as servers:
        for _ in range(options.rounds):
            for registered in map(int, options.sizes.split(",")):
                for share in map(float, options.shares.split(",")):
                    due = round(registered * share)
                    for name in options.peers.split(","):
                        found = run_case(servers, name, registered, due)
                        if isinstance(found, str):
                            print(f"{name:>20}{registered:>12,}{due:>12,}  {found}")
                            continue
                        print_row(format_row(found))
                        results.append(found)
    if options.json:
        rows = [asdict(result) for result in results]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if not options.no_picture:
        PICTURE.write_text(draw(results))


if __name__ == "__main__":
    main()
