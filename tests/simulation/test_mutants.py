"""The simulation can fail: it finds each of the mistakes in mutants.py."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS, Mutant


@pytest.mark.world
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_mutants_break_a_promise(mutant: Mutant) -> None:
    """Without the guard, a recorded seed breaks a promise within an hour."""
    is_found = any(map(mutant.is_found_in, mutant.seeds))

    assert is_found, f"not found by {mutant.seeds}; look for new seeds"


def test_there_are_many() -> None:
    """Every kind of guard is missing in at least one of them."""
    kinds = {mutant.breaks for mutant in MUTANTS}

    assert {
        "decision",
        "dispatch",
        "effect",
        "finality",
        "leadership",
        "mail",
        "minute",
        "notice",
        "start",
        "task",
    } == kinds
    assert len(MUTANTS) >= 20
