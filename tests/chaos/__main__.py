"""
An installation as in production, each fault once, and storms of all of them at once.

    python -m tests.chaos --seconds 600 --seed 1
    python -m tests.chaos --seconds 60 --faults disk,grants
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.run import run_chaos


def main() -> int:
    """Run chaos; return 1 if a promise was broken, and keep the logs then."""
    names = [*(fault.name for fault in FAULTS), "storm"]
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument(
        "--seconds", type=float, default=600, help="at least; default 600"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--apps", type=int, default=20, help="of a hundred actions")
    parser.add_argument(
        "--faults",
        type=lambda text: text.split(","),
        default=[],
        metavar="FAULT,...",
        help=f"of {', '.join(names)}; default all",
    )
    options = parser.parse_args()
    unknown = [name for name in options.faults if name not in names]
    if unknown:
        parser.error(f"--faults: {unknown[0]!r} is not one of {', '.join(names)}")
    folder = Path(tempfile.mkdtemp(prefix="minutehand-chaos-"))
    report = run_chaos(
        folder,
        seconds=options.seconds,
        seed=options.seed,
        names=options.faults,
        apps=options.apps,
    )
    sys.stdout.write(f"{report.text}\n")
    if report.wrong:
        sys.stdout.write(f"Logs: {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
