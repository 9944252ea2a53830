"""Local times of rules around clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.when.local_time import get_stretch, resolve_fixed
from tests.unit.models.fields.moments import make_instants, zones


@pytest.mark.parametrize(
    ("local", "zone", "instant"),
    [
        ("2026-03-29T02:30", "Europe/Paris", "2026-03-29T01:00+00:00"),
        # Casey leapt over three hours in 2019, and Samoa over a day in 2011
        ("2019-10-04T04:00", "Antarctica/Casey", None),
        ("2011-12-30T12:00", "Pacific/Apia", None),
    ],
)
def test_resolve_fixed(local: str, zone: str, instant: str | None) -> None:
    """A fixed time happens once, and never where three hours or more are left out."""
    actual = resolve_fixed(datetime.fromisoformat(local), ZoneInfo(zone))

    assert (instant and datetime.fromisoformat(instant)) == actual


def test_stretch_of_a_summer() -> None:
    """It reaches from the change in March to October's, with both sides of each."""
    stretch = get_stretch(ZoneInfo("Europe/Paris"), datetime(2026, 7, 1, tzinfo=UTC))

    assert datetime(2026, 3, 29, 1, tzinfo=UTC) == stretch.starts_at
    assert datetime(2026, 10, 25, 1, tzinfo=UTC) == stretch.ends_at
    assert timedelta(hours=2) == stretch.offset
    assert "2026-03-29T02:00:00" == stretch.left.isoformat()
    assert "2026-03-29T03:00:00" == stretch.first.isoformat()
    assert "2026-10-25T03:00:00" == stretch.last.isoformat()
    assert "2026-10-25T02:00:00" == stretch.following.isoformat()


def test_change_at_new_year_is_seen_from_both_years() -> None:
    """Samoa's missing day, the last but one of 2011, is found from either year."""
    apia = ZoneInfo("Pacific/Apia")
    changed_at = datetime(2011, 12, 30, 10, tzinfo=UTC)
    before = get_stretch(apia, changed_at - timedelta(seconds=1))
    after = get_stretch(apia, changed_at)
    in_january = get_stretch(apia, datetime(2012, 1, 1, tzinfo=UTC))

    assert changed_at == before.ends_at
    assert changed_at == after.starts_at
    assert changed_at == in_january.starts_at
    assert timedelta(days=1) == after.first - after.left


@given(make_instants(1900, 9990) | make_instants(1995, 2040), zones, st.floats(0, 1))
def test_stretches_are_even(instant: datetime, zone: ZoneInfo, part: float) -> None:
    """The offset is that of the zone, from the first instant to the last."""
    stretch = get_stretch(zone, instant)
    second = timedelta(seconds=1)
    length = stretch.ends_at - second - stretch.starts_at

    assert stretch.starts_at <= instant < stretch.ends_at
    for within in (0.0, part, 1.0):
        probe = stretch.starts_at + within * length
        assert stretch.offset == probe.astimezone(zone).utcoffset()
    assert stretch.following == stretch.ends_at.astimezone(zone).replace(tzinfo=None)
