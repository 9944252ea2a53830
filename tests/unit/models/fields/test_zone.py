"""Zones are found by their exact name, and everything else is explained."""

from __future__ import annotations

import pytest

from models.errors import RuleError
from models.fields.zone import get_zone_names, load_zone


def test_zone_is_known_by_its_name():
    """
    The zone that was asked for is returned, the same object each time.
    """
    zone = load_zone("Europe/Paris")

    assert "Europe/Paris" == zone.key
    assert zone is load_zone("Europe/Paris")


def test_every_name_loads():
    """
    Every name that is offered can be loaded.
    """
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
    """
    A name that is nearly right is refused with the right one.
    """
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
    """
    Paths, NULs, folders and endless names are refused with a short message.
    """
    with pytest.raises(RuleError) as caught:
        load_zone(name)

    assert len(str(caught.value)) < 300
    assert caught.value.hint
