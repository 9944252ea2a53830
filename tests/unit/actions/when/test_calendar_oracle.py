"""Our calendar rules against systemd's, outside clock changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actions.when.calendar import CalendarRule
from models.errors import RuleError
from models.expressions.calendar import CalendarExpression
from models.fields.zone import load_zone
from tests.unit.actions.when.calendar_oracle import (
    ITERATIONS,
    VECTORS,
    Vector,
    ask_oracle,
    has_oracle,
    make_base,
    make_rule,
)

#: Occurrences closer to a clock change than this follow our rule, not systemd's.
NEAR = timedelta(hours=26)

#: The last year of systemd's rules; ours go on.
LAST_YEAR = 2199

RECORDED = [
    Vector(**{**vector, "occurrences": tuple(vector["occurrences"])})
    for vector in json.loads(VECTORS.read_text("utf-8"))
]

HAS_ORACLE = has_oracle()


def pick_vector(seed: int) -> Vector:
    """Ask systemd about a rule of our making, or look up what it once said."""
    if not HAS_ORACLE:
        return RECORDED[seed % len(RECORDED)]

    random = Random(seed)
    return ask_oracle(make_rule(random), make_base(random))


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


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_rules_nobody_wrote_down(seed: int) -> None:
    """Made-up rules are read as systemd reads them, too."""
    assert_agreement(pick_vector(seed))
