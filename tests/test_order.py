"""The order in which the tests run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import _begin_with_waiting

TESTS = Path(__file__).parent


@dataclass(frozen=True)
class _Item:
    path: Path
    number: int


def test_each_worker_begins_with_its_share_of_the_tests_that_wait():
    """None is lost, those that share a browser stay together, and the rest follows."""
    counts = {"unit/test_a.py": 20, "chaos/test_b.py": 3, "acceptance/test_c.py": 2}
    counts |= {"browser/test_d.py": 1, "browser/test_e.py": 1}
    items: list[Any] = [
        _Item(TESTS / path, number)
        for path, count in counts.items()
        for number in range(count)
    ]

    ordered: list[Any] = _begin_with_waiting(items, 3)

    assert sorted(items, key=str) == sorted(ordered, key=str)
    folders = [each.path.relative_to(TESTS).parts[0] for each in ordered]
    assert [
        ["chaos"] * 3 + ["unit"] * 6,
        ["acceptance"] * 2 + ["unit"] * 7,
        ["browser"] * 2 + ["unit"] * 7,
    ] == [folders[start : start + 9] for start in range(0, 27, 9)]
