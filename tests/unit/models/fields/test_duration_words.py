"""Lengths of time as people type them, and as documents have them."""

from __future__ import annotations

import pytest

from models.fields.duration_words import read_duration, tell_duration


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PT90M", "90 minutes"),
        ("P1D", "1 day"),
        ("PT24H", "24 hours"),
        ("P7DT30S", "7 days 30 seconds"),
        (
            "P1Y2M3W4DT5H6M7S",
            "1 year 2 months 3 weeks 4 days 5 hours 6 minutes 7 seconds",
        ),
    ],
)
def test_durations_can_be_told_and_read_back(text: str, words: str) -> None:
    """24 hours are not a day."""
    assert words == tell_duration(text)
    assert text == read_duration(words)


@pytest.mark.parametrize("text", ["P", "PT", "PT1.5H", "P-1D", "soon", "", "5", "5 xs"])
def test_what_is_no_duration_stays(text: str) -> None:
    """The door refuses it, and says what to write."""
    assert text == tell_duration(text)
    assert text == read_duration(text)


def test_short_words_are_read() -> None:
    """As people type them."""
    assert ["PT5M", "PT2H30M", "P1DT1H", "PT10S"] == [
        read_duration(each) for each in ("5 min", "2h 30min", "1 day and 1 hour", "10s")
    ]
