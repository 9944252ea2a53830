"""Moments by chance, and zones whose clocks do all that clocks do."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from models.fields.zone import load_zone

zone_names = st.sampled_from(
    [
        "UTC",
        "Europe/Paris",
        "Europe/Dublin",  # winter time is the exception
        "America/New_York",
        "America/Havana",  # midnight is left out, and comes twice
        "America/Santiago",  # the same, in the south
        "America/St_Johns",  # at 00:01 until 2011
        "America/Nuuk",  # before midnight
        "Africa/Cairo",
        "Africa/Casablanca",  # four changes a year
        "Africa/Monrovia",  # 44 minutes and a half, in 1972
        "Antarctica/Casey",  # three hours, both ways
        "Antarctica/Troll",  # two hours
        "Asia/Kathmandu",  # no changes, a quarter of an hour
        "Asia/Pyongyang",
        "Australia/Lord_Howe",  # half an hour
        "Pacific/Apia",  # left out 30 December 2011
    ]
)
zones = zone_names.map(load_zone)


def make_locals(first: int, last: int) -> st.SearchStrategy[datetime]:
    """Give local times from the beginning of one year to that of another."""
    return st.datetimes(datetime(first, 1, 1), datetime(last, 1, 1))  # noqa: DTZ001 - local


def make_instants(first: int, last: int) -> st.SearchStrategy[datetime]:
    """Give instants from the beginning of one year to that of another."""
    return make_locals(first, last).map(lambda local: local.replace(tzinfo=UTC))
