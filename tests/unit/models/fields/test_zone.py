"""Zones are found by their exact name, and everything else is explained."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from models.errors import RuleError
from models.fields.zone import first_instant_at, get_zone_names, load_zone
from tests.unit.models.fields.moments import make_locals, zones


def test_zone_is_known_by_its_name():
    """The zone that was asked for is returned, the same object each time."""
    zone = load_zone("Europe/Paris")

    assert "Europe/Paris" == zone.key
    assert zone is load_zone("Europe/Paris")


def test_every_name_loads():
    """Every name that is offered can be loaded."""
    names = get_zone_names()

    assert len(names) > 400
    assert names == {load_zone(name).key for name in names}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("europe/paris", "Did you mean 'Europe/Paris'?"),
        ("Europe/paris ", "Did you mean 'Europe/Paris'?"),
        ("paris", "Did you mean 'Europe/Paris'?"),
        ("New York", "Did you mean 'America/New_York'?"),
        ("Europe/Pairs", "Did you mean 'Europe/Paris' or 'Europe/Warsaw'?"),
        ("utc", "Did you mean 'UTC'?"),
        ("GMT+1", "Name a place, such as 'Europe/Paris', or 'UTC'."),
        ("+02:00", "Name a place, such as 'Europe/Paris', or 'UTC'."),
        ("CEST", "Name a place, such as 'Europe/Paris', or 'UTC'."),
        (" pdt", "Name a place, such as 'Europe/Paris', or 'UTC'."),
    ],
)
def test_wrong_name_gets_the_right_one(name: str, hint: str):
    """A name that is nearly right is refused with the right one."""
    with pytest.raises(RuleError) as caught:
        load_zone(name)

    assert hint == caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "\0",
        "Europe/Paris\0",
        "/etc/passwd",
        "../zoneinfo/UTC",
        "Europe/../UTC",
        "Europe",
        "Europe/",
        "C:\\Windows",
        "localtime",
        "Factory",
        "tzdata.zi",
        "Europe/Par\N{LATIN SMALL LETTER I WITH DIAERESIS}s",
        "x" * 100_000,
    ],
)
def test_what_is_no_name_is_refused(name: str):
    """Paths, NULs, folders and endless names are refused with a short message."""
    with pytest.raises(RuleError) as caught:
        load_zone(name)

    assert len(str(caught.value)) < 300
    assert caught.value.hint


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
    """A time in a gap is the end of the gap, one that repeats its first pass."""
    actual = first_instant_at(datetime.fromisoformat(local), ZoneInfo(zone))

    assert datetime.fromisoformat(instant) == actual


@given(make_locals(1970, 2050), zones)
def test_it_is_the_first(local: datetime, zone: ZoneInfo) -> None:
    """The clock shows the time or a later one, and an earlier one just before."""
    instant = first_instant_at(local, zone)
    just_before = instant - timedelta(microseconds=1)

    assert local <= instant.astimezone(zone).replace(tzinfo=None)
    assert local > just_before.astimezone(zone).replace(tzinfo=None)
