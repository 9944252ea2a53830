"""How many attempts there are, and how long each waits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.back_off import (
    ATTEMPTS,
    LONGEST_PAUSE,
    MOST_RETRIES,
    RETRY_DELAY,
    BackOff,
    read_back_off,
)

SECONDS = st.integers(1, 86_400).map(lambda n: timedelta(seconds=n))


@pytest.mark.parametrize(
    ("document", "pauses"),
    [
        ({}, [30, 60]),
        ({"retries": 0}, []),
        ({"retries": 3}, [30, 60, 120]),
        ({"retry_after": "PT5S"}, [5, 10]),
        ({"retry_after": "at noon, as of next year"}, [30, 60]),
        ({"retries": 4, "retry_after": "PT8H"}, [28_800, 57_600, 86_400, 86_400]),
    ],
)
def test_pauses_double_up_to_a_day(document: dict[str, object], pauses: list[int]):
    """What an action leaves out is as it was before actions could say it."""
    back_off = read_back_off(document)
    lefts = range(back_off.attempts - 1, 0, -1)

    assert pauses == [
        back_off.find_pause(RETRY_DELAY, left=left).total_seconds() for left in lefts
    ]


@given(
    st.integers(0, MOST_RETRIES),
    SECONDS | st.none(),
    st.integers(1, MOST_RETRIES + ATTEMPTS),
)
def test_no_pause_is_longer_than_a_day_or_shorter_than_the_first(
    retries: int, first: timedelta | None, left: int
):
    """However many are left: an operation may have been given more by hand."""
    back_off = BackOff(retries + 1, first)

    pause = back_off.find_pause(RETRY_DELAY, left=left)

    assert (first or RETRY_DELAY) <= pause <= LONGEST_PAUSE
    assert pause >= back_off.find_pause(RETRY_DELAY, left=left + 1)
