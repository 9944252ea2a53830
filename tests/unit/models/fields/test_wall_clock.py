"""The instants at which a wall clock shows a time."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.fields.wall_clock import first_instant_at

ZONES = ("UTC", "Europe/Paris", "Australia/Lord_Howe", "Pacific/Apia", "America/Nuuk")


@pytest.mark.parametrize(
    ("local", "zone", "instant"),
    [
        ("2026-11-23T07:00", "Europe/Paris", "2026-11-23T06:00+00:00"),
        # March: 02:00 to 03:00 does not exist
        ("2026-03-29T01:59:59", "Europe/Paris", "2026-03-29T00:59:59+00:00"),
        ("2026-03-29T02:00", "Europe/Paris", "2026-03-29T01:00+00:00"),
        ("2026-03-29T02:59:59.5", "Europe/Paris", "2026-03-29T01:00+00:00"),
        ("2026-03-29T03:00", "Europe/Paris", "2026-03-29T01:00+00:00"),
        # October: 02:00 to 03:00 comes twice
        ("2026-10-25T02:30", "Europe/Paris", "2026-10-25T00:30+00:00"),
        ("2026-10-25T03:00", "Europe/Paris", "2026-10-25T02:00+00:00"),
        # half an hour, midnight, and a whole day
        ("2026-10-04T02:15", "Australia/Lord_Howe", "2026-10-03T15:30+00:00"),
        ("2018-11-04T00:00", "America/Sao_Paulo", "2018-11-04T03:00+00:00"),
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00+00:00"),
    ],
)
def test_first_instant_at(local: str, zone: str, instant: str) -> None:
    """
    A time in a gap is the end of the gap, one that repeats its first pass.
    """
    actual = first_instant_at(datetime.fromisoformat(local), ZoneInfo(zone))

    assert datetime.fromisoformat(instant) == actual


@given(
    st.datetimes(
        datetime(1970, 1, 1),  # noqa: DTZ001 - local times have no zone
        datetime(2050, 1, 1),  # noqa: DTZ001
    ),
    st.sampled_from(ZONES),
)
def test_it_is_the_first(local: datetime, name: str) -> None:
    """
    The clock shows the time or a later one, and an earlier one just before.
    """
    zone = ZoneInfo(name)
    instant = first_instant_at(local, zone)
    just_before = instant - timedelta(microseconds=1)

    assert local <= instant.astimezone(zone).replace(tzinfo=None)
    assert local > just_before.astimezone(zone).replace(tzinfo=None)
