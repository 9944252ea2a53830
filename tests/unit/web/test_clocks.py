"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.preferences import Clock, Clocks, Detail, find_zone

NOW = datetime(2026, 10, 25, 2, 2, 37, tzinfo=UTC)
LONDON = ZoneInfo("Europe/London")


def make_clocks(clock: Clock = Clock.SCHEDULE, mine: str | None = None) -> Clocks:
    """Return clocks of an installation in London."""
    return Clocks(NOW, clock, LONDON, find_zone(mine))


@pytest.mark.parametrize(
    ("clock", "mine", "expected"),
    [
        (Clock.SCHEDULE, "Asia/Kolkata", ("03:02", "+01:00")),
        (Clock.MINE, "Asia/Kolkata", ("07:32", "+05:30")),
        (Clock.MINE, None, ("03:02", "+01:00")),
        (Clock.UTC, "Asia/Kolkata", ("02:02Z", "")),
    ],
)
def test_clock_is_the_one_that_was_chosen(
    clock: Clock, mine: str | None, expected: tuple[str, str]
):
    """Whose browser has not told its zone gets the schedule's."""
    shown = make_clocks(clock, mine).show(NOW - timedelta(hours=0), "Europe/Paris")

    assert expected == (shown.text, shown.offset)


def test_hour_that_comes_twice_is_told_apart_by_its_offset():
    """The night the clocks go back in London: 01:30 is there twice."""
    clocks = make_clocks()
    first = clocks.show(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    second = clocks.show(datetime(2026, 10, 25, 1, 30, tzinfo=UTC))

    assert ("01:30", "+01:00") == (first.text, first.offset)
    assert ("01:30", "+00:00") == (second.text, second.offset)


@pytest.mark.parametrize(
    ("at", "detail", "expected"),
    [
        (NOW, Detail.SECOND, "02:02:37"),
        (NOW, Detail.DUE, "02:02:37"),
        (NOW.replace(second=0), Detail.DUE, "02:02"),
        (NOW - timedelta(days=1), Detail.MINUTE, "24 Oct 03:02"),
        (NOW - timedelta(days=400), Detail.MINUTE, "20 Sep 2025 03:02"),
        (NOW, Detail.FULL, "Sun 25 Oct 2026 02:02:37"),
        (NOW, Detail.DAY, "25 Oct 2026"),
    ],
)
def test_day_is_told_unless_it_is_today(at: datetime, detail: Detail, expected: str):
    """And the year, unless it is this one."""
    assert expected == make_clocks().show(at, detail=detail).text


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(Detail))
def test_instant_for_programs_is_the_same_on_each_clock(at: datetime, detail: Detail):
    """Whatever people see."""
    if not datetime(1, 1, 3, tzinfo=UTC) < at < datetime(9999, 12, 29, tzinfo=UTC):
        return
    isos = {make_clocks(clock).show(at, detail=detail).iso for clock in Clock}

    assert isos == {f"{at:%FT%T}Z"}


@pytest.mark.parametrize(
    "name", ["", "Mars/Base", "../../etc/passwd", "/etc/localtime", "a\0b", "x" * 9999]
)
def test_zone_that_is_none_is_none(name: str):
    """A browser, or somebody who plays one, sends what it likes."""
    assert find_zone(name) is None
