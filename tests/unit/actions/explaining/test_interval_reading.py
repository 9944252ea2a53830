"""The audit counts intervals on its own, and comes to what the tick found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actions.explaining.own_readings import read_interval
from actions.when.interval import make_interval_rule
from actions.when.searching import find_occurrences
from models.fields.zone import load_zone
from models.when import IntervalModel
from tests.unit.models.fields.moments import make_locals, zone_names

EVERY = ("P1D", "P2W", "P1DT12H", "P1DT36H", "P1M", "P1M1D", "P1Y", "PT7H", "P1.5D")

moments = make_locals(2009, 2030)


@given(
    st.sampled_from(EVERY),
    moments,
    zone_names,
    moments,
    st.timedeltas(timedelta(days=1), timedelta(days=90)),
)
@example(
    "P1D",
    datetime(2011, 12, 1, 12),  # noqa: DTZ001
    "Pacific/Apia",
    datetime(2011, 12, 28),  # noqa: DTZ001
    timedelta(days=5),
)
@example(
    "P1D",
    datetime(2026, 1, 1, 2, 30),  # noqa: DTZ001
    "Europe/Paris",
    datetime(2026, 3, 28),  # noqa: DTZ001
    timedelta(days=5),
)
def test_two_readings_agree(
    every: str, anchor: datetime, zone: str, begin: datetime, length: timedelta
) -> None:
    """Whatever the clocks do around the period, both find the same instants."""
    instant = anchor.replace(tzinfo=load_zone(zone)).astimezone(UTC)
    model = IntervalModel(
        every=every, anchor=instant.replace(microsecond=0).isoformat(), timezone=zone
    )
    since = begin.replace(tzinfo=UTC)
    rule = make_interval_rule(model)

    expected = find_occurrences(rule, since, since + length)

    assert expected == list(read_interval(model, since, since + length))


@pytest.mark.parametrize("every", ["P1D", "PT1M"])
def test_period_before_the_anchor_is_empty(every: str) -> None:
    """A grid begins with its anchor, which belongs to it."""
    model = IntervalModel(every=every, anchor="2026-06-01T09:00:00Z")
    anchor = datetime(2026, 6, 1, 9, tzinfo=UTC)

    assert [] == list(read_interval(model, anchor - timedelta(days=9), anchor))
    assert [anchor] == list(
        read_interval(model, anchor, anchor + timedelta(seconds=30))
    )
