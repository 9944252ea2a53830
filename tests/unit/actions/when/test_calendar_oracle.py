"""Our calendar rules against systemd's, outside clock changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from actions.when.calendar import CalendarRule
from models.errors import RuleError
from models.expressions.calendar import CalendarExpression
from models.fields.zone import load_zone
from tests.unit.actions.when.calendar_oracle import ITERATIONS, VECTORS, Vector

#: Occurrences closer to a clock change than this follow our rule, not systemd's.
NEAR = timedelta(hours=26)

#: The last year of systemd's rules; ours go on.
LAST_YEAR = 2199

RECORDED = [
    Vector(**{**vector, "occurrences": tuple(vector["occurrences"])})
    for vector in json.loads(VECTORS.read_text("utf-8"))
]


def has_change_near(instant: datetime, zone: ZoneInfo) -> bool:
    """Return whether the clocks of *zone* change within 26 hours of *instant*."""
    before, after = (
        (instant + step).astimezone(zone).utcoffset() for step in (-NEAR, NEAR)
    )
    return before != after


def find_ours(zoned: CalendarRule, base: datetime) -> list[datetime]:
    """Return as many occurrences after *base* as systemd was asked for."""
    found: list[datetime] = []
    due_at = zoned.next_from(base + timedelta(seconds=1))
    while due_at and due_at.year <= LAST_YEAR and len(found) < ITERATIONS:
        found.append(due_at)
        due_at = zoned.next_from(due_at + timedelta(seconds=1))

    return found


def assert_agreement(vector: Vector) -> None:
    """Compare our reading of a rule with systemd's."""
    try:
        rule = CalendarExpression.parse(vector.rule)
    except RuleError as error:
        # The one thing we refuse and systemd does not: dates that never come.
        never_due = "is never due" in error.message and not vector.occurrences
        if vector.normalized is None or never_due:
            return
        raise

    assert vector.normalized == str(rule)

    zone = load_zone(rule.zone_name or "UTC")
    ours = find_ours(CalendarRule(rule, zone), datetime.fromisoformat(vector.base))
    theirs = [
        datetime.fromisoformat(text).replace(tzinfo=UTC) for text in vector.occurrences
    ]
    if any(has_change_near(due_at, zone) for due_at in ours + theirs):
        # One more or less near the change moves the end of the list.
        last = min(ours[-1], theirs[-1])
        ours, theirs = (
            [t for t in found if t <= last and not has_change_near(t, zone)]
            for found in (ours, theirs)
        )

    assert theirs == ours


@pytest.mark.parametrize("vector", RECORDED, ids=lambda vector: vector.rule)
def test_recorded_answers_of_systemd(vector: Vector) -> None:
    """Syntax, normalized form and occurrences are those of systemd 252."""
    assert_agreement(vector)
