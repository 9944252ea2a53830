"""Actions to begin with."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from actions.occurrences import make_schedule
from models.door.documents import read_action
from models.errors import NotFoundError
from models.timing import make_timing
from models.when import KINDS, AfterActionModel
from web.editor.starters import STARTERS, get_starter, list_starters

DAYS = [date(2026, 11, 22), date(2026, 12, 31), date(2028, 1, 31), date(2028, 2, 29)]


@pytest.mark.parametrize("today", DAYS)
@pytest.mark.parametrize("kind", STARTERS)
def test_starter_can_be_posted_as_it_is(kind: str, today: date) -> None:
    """On whatever day; a rule of time is due within the next three months."""
    action = read_action(get_starter(kind, today).text)

    now = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    timing = make_timing(action, created_at=now, holidays={})
    if timing is not None:
        due_at = make_schedule(timing).next_from(now)
        assert due_at is not None
        assert due_at - now < timedelta(days=93)


def test_each_kind_of_when_has_one() -> None:
    """And nothing is left to be filled in. What follows another cannot be first."""
    starters = list_starters(DAYS[0])

    found = set()
    for each in starters:
        when = read_action(each.text).when
        rules = when if isinstance(when, tuple) else (when,)
        found |= {type(rule) for rule in rules}
        assert "{{" not in each.text
    assert set(KINDS.values()) - {AfterActionModel} == found
    assert len({each.title for each in starters}) == len(starters)


def test_every_file_is_offered() -> None:
    """None is forgotten."""
    folder = files("web.editor") / "starters"

    names = {each.name for each in folder.iterdir() if each.name.endswith(".json")}
    assert {f"{kind}.json" for kind in STARTERS} == names


def test_once_is_at_nine_on_the_first_of_next_month() -> None:
    """In the zone that the text names."""
    action = read_action(get_starter("once", DAYS[0]).text)
    now = datetime(2026, 11, 22, tzinfo=UTC)
    timing = make_timing(action, created_at=now, holidays={})

    assert timing is not None
    due_at = make_schedule(timing).next_from(now)
    new_york = ZoneInfo("America/New_York")
    assert datetime(2026, 12, 1, 9, tzinfo=new_york) == due_at


def test_unknown_kind_is_refused_with_those_there_are() -> None:
    """And the one that was probably meant."""
    with pytest.raises(NotFoundError, match="Did you mean 'weekdays'"):
        get_starter("weekday", DAYS[0])
