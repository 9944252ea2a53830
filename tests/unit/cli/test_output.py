"""How times and lengths of time are shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from rich.text import Text

from cli.output import find_least_width, format_both, out, print_table
from models.units import format_age

AT = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)


@pytest.fixture
def in_paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the clock of this computer be that of Paris."""
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_paris")
def test_people_see_both_days_where_they_differ():
    """
    Where local and UTC dates differ, both are named.
    """
    shown = format_both(AT)

    assert "2026-11-24 00:30:00 (2026-11-23 23:30:00Z)" == shown


@pytest.mark.usefixtures("in_paris")
def test_people_see_the_day_once():
    """
    Where local and UTC dates agree, the day is named once.
    """
    shown = format_both(AT - timedelta(hours=12))

    assert "2026-11-23 12:30:00 (11:30:00Z)" == shown


def test_nothing_is_a_dash():
    """
    What has not happened is a dash.
    """
    assert "-" == format_both(None)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3725, "1 h 2 min"),
        (86400 * 3, "3 d"),
    ],
)
def test_age_has_its_two_largest_units(seconds: float, shown: str):
    """
    A length of time is told in two units at most.
    """
    assert shown == format_age(timedelta(seconds=seconds))


ID = "08a93d38-5cf4-56ef-a6e2-06913dd2c173"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (48, f"id{' ' * 36}what\n{ID}  the weekly\n{' ' * 38}update\n"),
        (43, f"id    {ID}\nwhat  the weekly update\n"),
    ],
)
def test_table_that_would_break_words_is_a_block_for_each_row(
    width: int,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """
    A terminal that is too narrow for its columns shows names and values instead.
    """
    out.cache_clear()
    monkeypatch.setattr(out(), "width", width)

    print_table(("id", "what"), [(ID, "the weekly update")], empty="")

    out.cache_clear()
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown.splitlines() == lines


def test_long_words_may_be_broken():
    """
    A path in one cell does not make blocks of a table that fits otherwise.
    """
    rows = [(Text("bad"), Text("/srv" * 30))]

    assert 3 + 2 + 20 == find_least_width(("", "found"), rows)
