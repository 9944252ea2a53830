"""
Kill, freeze and cut off everything at random, and see whether we kept our promises.

    python -m tests.chaos --seconds 300 --seed 1
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.run import run_chaos


def main() -> int:
    """Run chaos; return 1 if a promise was broken, and keep the logs then."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="minutehand-chaos-"))
    report = run_chaos(folder, seconds=options.seconds, seed=options.seed)
    sys.stdout.write(f"{report.text}\n")
    if report.verdict.faults:
        sys.stdout.write(f"Logs: {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
