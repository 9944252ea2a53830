"""
Simulated hours of faults, and no promise broken; when: tests/recorded.py.

`make simulate` runs longer; `python -m tests.simulation --seed N` replays one seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.faults import RATES, Fault, Faults, Place
from tests.simulation.seeds import simulate
from tests.simulation.world import Emphasis, Report, World

#: ``make test-all`` has more, and ``make simulate SEEDS=2000`` as many as one likes.
SEEDS = 40 if os.environ.get("MINUTEHAND_TEST_ALL") else 12

#: A world that is always lived through, twice, and how much of its hour.
REPLAYED, HOURS = 11, 0.25

_ROOT = Path(__file__).parents[2]


@cache
def live(seed: int) -> Report:
    """Return what was lived through in the world of *seed*, which is lived once."""
    return simulate(seed)


@pytest.mark.world
@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_hour_of_faults_breaks_no_promise(seed: int) -> None:
    """Whatever fails, all that was promised holds after each commit and in the end."""
    # An InvariantError names the promise; the seed is all that replays it.
    report = live(seed)

    assert report.figures["operations"] > 0


#: What worlds have more of, how many of them there are, and a figure that shows it.
EMPHASES = {
    # Whatever else there is to do, no tick is late; and all of it is done in the end.
    "strain": (Emphasis(strain=True), 2, "ticks"),
    # Something is due between two ticks.
    "seconds": (Emphasis(seconds=True), 3, "operations"),
    # Each end starts one run, in a chain, whoever dies meanwhile.
    "follow": (Emphasis(follow=True), 4, "operations"),
    # It is told once, whoever leads and dies; and in the end, that it has ended.
    "late": (Emphasis(clock_jumps=False, expects=True), 4, "late"),
}


@pytest.mark.world
@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, seed) for name, (_, seeds, _) in EMPHASES.items() for seed in range(seeds)],
)
def test_emphasis_breaks_no_promise(name: str, seed: int) -> None:
    """Nor does an hour with more of what few worlds have."""
    emphasis, _, figure = EMPHASES[name]

    assert simulate(seed, emphasis=emphasis).figures[figure] > 0


def test_a_seed_replays_byte_for_byte() -> None:
    """Another process with other hashes lives through the same world."""
    here = simulate(REPLAYED, hours=HOURS)
    asked = ("--seed", str(REPLAYED), "--hours", str(HOURS))
    there = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *asked],
        cwd=_ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert f"seed {REPLAYED}: {here.digest}" == there.stdout.strip()


def test_faults_strike_at_every_call() -> None:
    """Every fault there is at every place there is comes with its rate."""
    world = World(0)
    faults = Faults(world.rng, intensity=10)
    for place in Place:
        for _call in range(20_000):
            faults.draw(place)

    assert set(faults.counts) == {
        f"{place}: {fault}" for place, rates in RATES.items() for fault, _rate in rates
    }


@pytest.mark.world
def test_people_edit_while_a_tick_decides() -> None:
    """The moment between a tick's reading and its writing is found, and used."""
    report = simulate(1, emphasis=Emphasis(clock_jumps=False, races=20))

    assert report.faults[f"{Place.BEFORE_RECORD}: {Fault.RACE}"] > 0
