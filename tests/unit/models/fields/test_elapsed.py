"""Elapsed time in documents: hours, minutes and seconds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from models.errors import RuleError
from models.fields.elapsed import parse_elapsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1S", timedelta(seconds=1)),
        ("PT36H", timedelta(hours=36)),
        ("PT744H", timedelta(days=31)),
    ],
)
def test_hours_minutes_and_seconds_are_read(text: str, expected: timedelta):
    """Up to a month."""
    assert expected == parse_elapsed(text)


@pytest.mark.parametrize("text", ["P1D", "P1W", "P1M", "P1DT1H", "PT0M", "PT745H", ""])
def test_anything_else_is_refused(text: str):
    """Days as well: how long they are depends on the date."""
    with pytest.raises(RuleError):
        parse_elapsed(text)
