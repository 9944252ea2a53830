"""What took long is made once for all who ask the same."""

from __future__ import annotations

from datetime import timedelta

import pytest

from models.errors import UnreachableError
from serving.services import KEPT_FOR, LONG, MOST, Kept


class Work:
    """Something that takes a while, by a clock that goes on as it is done."""

    def __init__(self, took: timedelta) -> None:
        """Take *took* each time."""
        self.now, self.took, self.times = 0.0, took.total_seconds(), 0

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def make(self) -> int:
        """Do it; return how often it was done."""
        self.now += self.took
        self.times += 1
        return self.times


def test_what_took_long_is_kept_a_while():
    work = Work(LONG)
    kept = Kept(work.clock)

    first = kept.ask("a", work.make)
    work.now += 10
    again = kept.ask("a", work.make)
    work.now += KEPT_FOR.total_seconds()
    later = kept.ask("a", work.make)

    assert (1, timedelta()) == first
    assert (1, timedelta(seconds=10)) == again
    assert (2, timedelta()) == later


def test_what_is_quick_is_never_old():
    """Everybody gets it as it is now."""
    work = Work(LONG / 2)
    kept = Kept(work.clock)

    assert [1, 2] == [kept.ask("a", work.make)[0] for _ in range(2)]


def test_another_question_has_another_answer():
    """And those that were asked long ago are forgotten."""
    work = Work(LONG)
    kept = Kept(work.clock)

    found = [kept.ask(number, work.make)[0] for number in range(MOST + 1)]

    assert list(range(1, MOST + 2)) == found
    assert MOST + 2 == kept.ask(0, work.make)[0]


def test_an_error_is_not_kept():
    """The next one who asks may be luckier."""
    work = Work(LONG)
    kept = Kept(work.clock)

    def fail() -> int:
        work.make()
        raise UnreachableError("away")

    with pytest.raises(UnreachableError):
        kept.ask("a", fail)

    assert (2, timedelta()) == kept.ask("a", work.make)
