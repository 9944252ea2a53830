"""
The long form: many seeds, many hours, all cores (`make simulate`).

    python -m tests.simulation --seeds 200 --hours 10
    python -m tests.simulation --seed 57 --trace      replay one, line by line
    python -m tests.simulation --mutants              find seeds for mutants.py
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice

from tests.simulation.mutants import MUTANTS
from tests.simulation.seeds import simulate
from tests.simulation.world import Report

#: Seeds between two lines that tell how far it is.
_PROGRESS = 50

#: Seeds tried, and kept, for each mutant.
_TRIED, _KEPT = 60, 3


def _try(seed: int, hours: float) -> Report | str:
    try:
        return simulate(seed, hours=hours)
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed has failed
        return f"seed {seed}: {type(error).__name__}: {error}"


def _run_many(seeds: Sequence[int], hours: float, jobs: int) -> int:
    started = time.monotonic()
    faults: Counter[str] = Counter()
    figures: Counter[str] = Counter()
    failed = 0
    with ProcessPoolExecutor(jobs) as pool:
        outcomes = pool.map(partial(_try, hours=hours), seeds)
        for number, outcome in enumerate(outcomes, start=1):
            if isinstance(outcome, str):
                failed += 1
                _say(outcome)
            else:
                faults += outcome.faults
                figures += outcome.figures
            if number % _PROGRESS == 0:
                _say(f"{number} of {len(seeds)} seeds, {failed} failed")
    _say(f"{len(seeds)} seeds of {hours:g} h in {time.monotonic() - started:.0f} s")
    for title, counts in (("figures", figures), ("faults", faults)):
        _say(f"{title}: {counts.total() if counts is faults else ''}")
        for name, count in sorted(counts.items()):
            _say(f"  {count:>9}  {name}")
    if failed:
        _say(f"{failed} seeds failed; replay one: python -m tests.simulation --seed N")
    return 1 if failed else 0


def _replay(seed: int, hours: float, *, trace: bool) -> int:
    report = simulate(seed, hours=hours, say=_say if trace else None)
    _say(f"seed {seed}: {report.digest}")
    return 0


def _find_seeds(number: int) -> tuple[int, ...]:
    """Return the first worlds that find a mutant, by its number: it is not pickled."""
    return tuple(islice(filter(MUTANTS[number].is_found_in, range(_TRIED)), _KEPT))


def _hunt(jobs: int) -> int:
    with ProcessPoolExecutor(jobs) as pool:
        every = pool.map(_find_seeds, range(len(MUTANTS)))
        for mutant, found in zip(MUTANTS, every, strict=True):
            _say(f"{mutant.name}: {found}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run what was asked for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--mutants", action="store_true")
    options = parser.parse_args()
    if options.mutants:
        return _hunt(options.jobs)
    if options.seed is not None:
        return _replay(options.seed, options.hours, trace=options.trace)
    seeds = range(options.first, options.first + options.seeds)
    return _run_many(seeds, options.hours, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
