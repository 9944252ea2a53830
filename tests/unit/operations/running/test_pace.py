"""How fast a part goes, on a clock of numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from operations.domains import Reached
from operations.running.pace import Pace, describe_part


def reach(done: int, total: int | None = 1000, doing: str = "download") -> Reached:
    return Reached(doing, done, total, "bytes")


def test_rate_and_end_are_those_since_the_part_began():
    """Half of what was to come after the first point took 10 s, so 10 s are left."""
    pace = Pace()
    pace.measure("sales", reach(200), at=100.0)

    found = pace.measure("sales", reach(600), at=110.0)

    assert {
        "doing": "download",
        "unit": "bytes",
        "done": 600,
        "total": 1000,
        "per_second": 40.0,
        "seconds_left": 10,
    } == found


def test_nothing_is_said_of_what_nobody_knows():
    """No rate from one point, no end without a total or while nothing moves."""
    pace = Pace()

    first = pace.measure("sales", reach(5), at=0.0)
    stuck = pace.measure("sales", reach(5), at=9.0)
    endless = pace.measure("sales", reach(50, None), at=9.0)

    assert (None, None) == (first["per_second"], first["seconds_left"])
    assert (0.0, None) == (stuck["per_second"], stuck["seconds_left"])
    assert (5.0, None) == (endless["per_second"], endless["seconds_left"])


def test_each_part_begins_anew():
    """Another domain, or other work on the same one, has a rate of its own."""
    pace = Pace()
    pace.measure("sales", reach(0), at=0.0)
    pace.measure("sales", reach(1000), at=10.0)

    unpacked = pace.measure("sales", reach(10, doing="unpack"), at=10.0)
    other = pace.measure("stores", reach(1), at=20.0)

    assert (10, None) == (unpacked["done"], unpacked["per_second"])
    assert (1, None) == (other["done"], other["per_second"])


@given(
    st.lists(
        st.tuples(st.integers(0, 10**15), st.floats(0, 10**6)), min_size=1, max_size=20
    ),
    st.none() | st.integers(0, 10**15),
)
def test_done_never_falls_and_the_end_is_never_past(
    points: list[tuple[int, float]], total: int | None
):
    """Whatever a source tells, what people see goes one way."""
    pace, at, before = Pace(), 0.0, 0
    for done, elapsed in points:
        at += elapsed
        found: dict[str, Any] = pace.measure("sales", reach(done, total), at=at)

        assert before <= found["done"]
        assert found["seconds_left"] is None or found["seconds_left"] >= 0
        before = found["done"]
        assert describe_part("sales", reach(done, total), found)
