"""Rules that were made up, in zones whose clocks do all that clocks do."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from hypothesis import strategies as st

from actions.when.calendar import CalendarRule
from actions.when.interval import IntervalRule
from models.errors import RuleError
from models.expressions.calendar import CalendarExpression
from models.fields.duration import Duration
from tests.unit.actions.when.calendar_oracle import make_rule
from tests.unit.models.fields.moments import make_instants, zones

#: Zones and instants at which their clocks change, by less than three hours.
CHANGES = [
    ("Europe/Paris", "2026-03-29T01:00+00:00"),
    ("Europe/Paris", "2026-10-25T01:00+00:00"),
    ("America/New_York", "2026-03-08T07:00+00:00"),
    ("America/New_York", "2026-11-01T06:00+00:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00+00:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30+00:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00+00:00"),
    ("America/Havana", "2026-11-01T05:00+00:00"),
    ("Antarctica/Troll", "2026-03-29T01:00+00:00"),
    ("Antarctica/Troll", "2026-10-25T01:00+00:00"),
    ("Asia/Pyongyang", "2018-05-04T15:00+00:00"),
    ("Africa/Monrovia", "1972-01-07T00:44:30+00:00"),
]

days_with_changes = make_instants(2009, 2030)
instants = days_with_changes | make_instants(1900, 9900)
_seconds = st.integers(0, 3_000_000).map(lambda count: timedelta(seconds=count))
interval_rules = st.builds(
    IntervalRule,
    st.builds(
        Duration,
        st.integers(0, 30) | st.just(0),
        st.integers(0, 60) | st.just(0),
        _seconds | st.just(timedelta()),
    ).filter(lambda every: every.is_calendar or every.rest >= timedelta(minutes=1)),
    days_with_changes.map(lambda anchor: anchor.replace(microsecond=0)),
    zones,
)


def _parse_or_none(text: str) -> CalendarExpression | None:
    """Read a rule that was made up and need not be one."""
    try:
        return CalendarExpression.parse(text)
    except RuleError:
        return None


_expressions = (
    st.integers(0, 2**32)
    .map(lambda seed: _parse_or_none(make_rule(Random(seed))))
    .filter(bool)
)
calendar_rules = st.builds(CalendarRule, _expressions, zones)
