"""
Live through many seeds, or through one.

    python -m tests.buckets --seeds 1000
    python -m tests.buckets --seed 57 --trace
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.buckets.world import CALM, BucketWorld, Troubles
from tests.simulation.invariants import InvariantError


def main() -> int:
    """Live through many seeds, or through one; return how many failed."""
    parser = argparse.ArgumentParser(prog="tests.buckets")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--calm", action="store_true", help="moves alone, no faults")
    parser.add_argument("--trace", action="store_true")
    asked = parser.parse_args()
    seeds = range(asked.seeds) if asked.seed is None else (asked.seed,)
    say = _say if asked.trace else lambda _line: None
    figures: Counter[str] = Counter()
    failed = 0
    for seed in seeds:
        troubles = CALM if asked.calm else Troubles()
        try:
            figures += BucketWorld(seed, troubles, say).run()
        except InvariantError as error:
            failed += 1
            _say(f"seed {seed}: {error}")
    for name, count in sorted(figures.items()):
        _say(f"{count:>9}  {name}")
    _say(f"{len(seeds)} seeds, {failed} failed")
    return failed


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(min(main(), 1))
