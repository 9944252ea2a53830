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

#: Of these, the one that is always lived through, twice: most others are longer.
REPLAYED = 11

_ROOT = Path(__file__).parents[2]


@cache
def live(seed: int) -> Report:
    """Return what was lived through in the world of *seed*, which is lived once."""
    return simulate(seed)


@pytest.mark.world
@pytest.mark.parametrize("seed", [*range(REPLAYED), *range(REPLAYED + 1, SEEDS)])
def test_an_hour_of_faults_breaks_no_promise(seed: int) -> None:
    """Whatever fails, all that was promised holds after each commit and in the end."""
    # An InvariantError names the promise; the seed is all that replays it.
    report = live(seed)

    assert report.figures["operations"] > 0


@pytest.mark.world
@pytest.mark.parametrize("seed", range(2))
def test_no_tick_is_late_while_the_database_answers(seed: int) -> None:
    """Whatever else there is to do, and all of it is done in the end."""
    report = simulate(seed, emphasis=Emphasis(strain=True))

    assert report.figures["ticks"] > 5


@pytest.mark.world
@pytest.mark.parametrize("seed", range(3))
def test_seconds_break_no_promise(seed: int) -> None:
    """Nor where something is due between two ticks."""
    emphasis = Emphasis(seconds=True)

    assert simulate(seed, emphasis=emphasis).figures["operations"] > 0


@pytest.mark.world
@pytest.mark.parametrize("seed", range(4))
def test_what_follows_others_breaks_no_promise(seed: int) -> None:
    """Each end starts one run, in a chain, whoever dies meanwhile."""
    emphasis = Emphasis(follow=True)

    assert simulate(seed, emphasis=emphasis).figures["operations"] > 0


@pytest.mark.world
@pytest.mark.parametrize("seed", range(4))
def test_what_is_late_is_told_once(seed: int) -> None:
    """Whoever leads, and whoever dies; and in the end, that it has ended."""
    emphasis = Emphasis(clock_jumps=False, expects=True)

    assert simulate(seed, emphasis=emphasis).figures["late"] > 0


def test_a_seed_replays_byte_for_byte() -> None:
    """Another process with other hashes lives through the same world."""
    here = live(REPLAYED)
    there = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", str(REPLAYED)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert f"seed {REPLAYED}: {here.digest}" == there.stdout.strip()


@pytest.mark.world
def test_seeds_are_different_worlds() -> None:
    """Another seed is another story."""
    assert live(REPLAYED).digest != live(3).digest


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


def test_without_faults_nothing_is_drawn() -> None:
    """A calm world draws no fault at all."""
    world = World(0)
    faults = Faults(world.rng, intensity=0)

    assert {faults.draw(place) for place in Place} == {None}
