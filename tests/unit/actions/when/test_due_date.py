"""When a due date is due."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from actions.when.due_date import make_due_date_rule
from models.errors import RuleError
from models.when import DueDateModel


def make_model(due_date: str, timezone: str = "Europe/Paris") -> DueDateModel:
    """Skip the door, so that the rule is seen to check on its own."""
    return DueDateModel.model_construct(due_date=due_date, timezone=timezone)


@pytest.mark.parametrize(
    ("text", "due_at"),
    [
        ("2026-12-01T09:00:00", "2026-12-01T08:00+00:00"),
        ("2026-12-01T09:00:00+05:30", "2026-12-01T03:30+00:00"),
        ("2026-12-01T09:00:30Z", "2026-12-01T09:00:30+00:00"),
        # comes twice in October: the first pass
        ("2026-10-25T02:30", "2026-10-25T00:30+00:00"),
    ],
)
def test_a_due_date_is_due_once(text: str, due_at: str) -> None:
    """It is found from any instant up to it, and never again."""
    zoned = make_due_date_rule(make_model(text))
    expected = datetime.fromisoformat(due_at)

    assert expected == zoned.next_from(expected - timedelta(days=99))
    assert expected == zoned.next_from(expected)
    assert zoned.next_from(expected + timedelta(seconds=1)) is None


@pytest.mark.parametrize(
    ("text", "timezone", "words"),
    [
        ("2026-03-29T02:30", "Europe/Paris", "2026-03-29T03:00:00"),
        ("2026-12-01T09:00", "Europe/Pari", "'Europe/Paris'"),
    ],
)
def test_what_is_no_instant_is_refused(text: str, timezone: str, words: str) -> None:
    """The error says what to write instead."""
    with pytest.raises(RuleError, match=words):
        make_due_date_rule(make_model(text, timezone))
