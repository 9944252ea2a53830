"""What lies between an event and its occurrence, as one text."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from models.errors import RuleError
from models.fields.delay import Delay, join_delay, parse_time_of_day, split_delay
from models.fields.duration import Duration


@pytest.mark.parametrize(
    ("duration", "at", "text"),
    [
        (None, None, None),
        ("P7DT30S", None, "P7DT30S"),
        ("PT0S", None, "PT0S"),
        (None, "09:00", "09:00"),
        ("P30D", "09:00", "P30D 09:00"),
    ],
)
def test_duration_and_time_of_day_are_one_text(
    duration: str | None, at: str | None, text: str | None
) -> None:
    """A column has both, as they were written, and gives both back."""
    assert text == join_delay(duration, at)
    assert (duration, at) == split_delay(text)
    assert Delay(
        Duration.parse(duration or "PT0S"),
        None if at is None else parse_time_of_day(at),
    ) == Delay.parse(text)


@pytest.mark.parametrize("text", ["9:00", "P1D 9:00", "P1 09:00", "P1D 09:00 x", ""])
def test_text_that_is_neither_is_refused(text: str) -> None:
    """Such an action goes into quarantine, with the reason."""
    with pytest.raises(RuleError):
        Delay.parse(text)


@pytest.mark.parametrize("text", ["00:00", "09:00", "23:59"])
def test_time_of_day_has_hours_and_minutes(text: str) -> None:
    """As a clock of 24 hours shows it."""
    assert time.fromisoformat(text) == parse_time_of_day(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("9:00", "Write 09:00."),
        ("9", "Write 09:00."),
        ("12 am", "Write 00:00."),
        ("12pm", "Write 12:00."),
        ("5:30 PM", "Write 17:30."),
        ("09.30", "Write 09:30."),
        ("9h30", "Write 09:30."),
        ("09:00:00", "Write 09:00."),
        ("24:00", "Write 00:00."),
        ("09:00Z", "Write hours and minutes"),
        ("09:60", "Write hours and minutes"),
        ("", "Write hours and minutes"),
        ("\u0660\u0669:\u0660\u0660", "Write hours and minutes"),
        ("09:00\n", "Write 09:00."),
        ("9" * 400, "Write hours and minutes"),
    ],
)
def test_other_spellings_are_refused_with_what_was_meant(text: str, hint: str) -> None:
    """The hint is never something that is refused next."""
    with pytest.raises(RuleError) as caught:
        parse_time_of_day(text)

    assert caught.value.hint.startswith(hint)
    assert len(caught.value.message) < 80


def test_longest_covers_every_zone_and_the_day_that_is_waited_for() -> None:
    """Events are kept so long; elapsed time alone is exact."""
    assert timedelta(hours=36) == Delay.parse("PT36H").longest
    assert timedelta(days=7, hours=26) == Delay.parse("P7D").longest
    assert timedelta(days=31 + 3, hours=26) == Delay.parse("P1M 09:00").longest
