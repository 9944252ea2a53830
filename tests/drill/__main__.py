"""
The operator's drill: an installation as in production, and each fault once.

    python -m tests.drill --minutes 10 --seed 1
    python -m tests.drill --minutes 1 --only disk,grants
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.drill.faults import FAULTS
from tests.drill.run import run_drill


def main() -> int:
    """Run the drill; return 1 if a promise was broken, and keep the logs then."""
    names = [fault.name for fault in FAULTS]
    parser = argparse.ArgumentParser(prog="python -m tests.drill")
    parser.add_argument(
        "--minutes", type=float, default=10, help="at least; default 10"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=[],
        metavar="FAULT,...",
        help=f"of {', '.join(names)}",
    )
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in names]
    if unknown:
        parser.error(f"--only: {unknown[0]!r} is not one of {', '.join(names)}")
    folder = Path(tempfile.mkdtemp(prefix="minutehand-drill-"))
    report = run_drill(
        folder, minutes=options.minutes, seed=options.seed, only=options.only
    )
    sys.stdout.write(f"{report.text}\n")
    if not report.is_pass:
        sys.stdout.write(f"Logs: {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
