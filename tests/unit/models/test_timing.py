"""Tests of what the tick needs of an action, and of its one text."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from models.door.documents import read_action, read_action_object
from models.errors import InvalidDocumentError
from models.timing import make_timing, timing_text
from models.when import IntervalModel, TimingModel
from tests.unit.models.documents import ACTION, find_problems, on_event

CREATED_AT = datetime(2026, 11, 23, 7, 0, 30, tzinfo=ZoneInfo("Europe/Paris"))
CHRISTMAS = date(2026, 12, 25)
FRANCE = {"fr": [(CHRISTMAS, CHRISTMAS), (date(2027, 1, 1), date(2027, 1, 1))]}


def read_timing(**changes: object) -> TimingModel:
    """Return the timing of the valid action with some fields changed."""
    named = {key.removesuffix("_"): value for key, value in changes.items()}
    action = read_action_object({**ACTION, **named})
    timing = make_timing(action, holidays=FRANCE, created_at=CREATED_AT)
    assert timing is not None  # it does not follow an event
    return timing


def test_event_action_has_no_timing():
    """The clock alone never makes an action on an event due."""
    action = read_action(on_event())

    assert make_timing(action, holidays={}, created_at=CREATED_AT) is None


def test_interval_counts_from_creation():
    """An interval without an anchor counts from its creation, floored to the minute."""
    timing = read_timing(when={"every": "PT24H"})

    expected = IntervalModel(every="PT24H", anchor="2026-11-23T06:00:00+00:00")
    assert (expected,) == timing.when


def test_anchor_that_was_given_stays():
    """An anchor of the document is kept as it is written."""
    rule = {"every": "PT24H", "anchor": "2026-01-01T00:00:00", "timezone": "Asia/Tokyo"}

    assert (IntervalModel(**rule),) == read_timing(when=rule).when


def test_exceptions_become_ranges():
    """Days, ranges and calendars become the fewest ranges of days."""
    timing = read_timing(
        except_=[
            {"calendar": "fr"},
            "2026-12-24",
            {"from": "2026-12-26", "until": "2026-12-28"},
            "2026-12-24",
        ]
    )

    assert (
        (date(2026, 12, 24), date(2026, 12, 28)),
        (date(2027, 1, 1), date(2027, 1, 1)),
    ) == timing.excluded


def test_unknown_holiday_calendar_is_refused():
    """A calendar that the app does not have is refused by its place in the document."""
    excepted = ["2026-12-25", {"calendar": "frr"}, {"calendar": "xyz"}]

    first, second = find_problems(read_timing, except_=excepted)

    assert "/except/1/calendar" == first.pointer
    assert "'frr' is not a holiday calendar" in first.message
    assert "Did you mean 'fr'? It has: fr." == first.hint
    assert "It has: fr." == second.hint


def test_app_without_calendars_is_told_how_to_add_one():
    """Where there is no calendar at all, the hint says how to get one."""
    action = read_action_object({**ACTION, "except": [{"calendar": "fr"}]})

    with pytest.raises(InvalidDocumentError, match="apps apply"):
        make_timing(action, holidays={}, created_at=CREATED_AT)


def test_text_is_compact_and_has_no_defaults():
    """The text holds what is set and nothing else."""
    assert '{"when":[{"cron_rule":"0 7 * * 1","timezone":"Europe/Paris"}]}' == (
        timing_text(read_timing())
    )


def test_whole_text():
    """Bounds are written in UTC, days as ranges."""
    timing = read_timing(
        starts_at="2026-12-01T00:00:00",
        ends_at="2027-12-01T00:00:00Z",
        except_=["2026-12-25"],
        jitter="PT5M",
    )

    assert (
        '{"ends_at":"2027-12-01T00:00:00+00:00",'
        '"excluded":[["2026-12-25","2026-12-25"]],"jitter":"PT5M",'
        '"starts_at":"2026-11-30T23:00:00+00:00",'
        '"when":[{"cron_rule":"0 7 * * 1","timezone":"Europe/Paris"}]}'
    ) == timing_text(timing)


def test_text_has_weekdays_by_number_and_where_occurrences_go():
    """However the weekdays are written, and in how many entries."""
    texts = {
        timing_text(read_timing(except_=entries, instead="before"))
        for entries in (
            [{"weekdays": ["Sunday", "sat", "Sat"]}],
            [{"weekdays": ["SUN"]}, {"weekdays": ["Saturday"]}],
        )
    }

    expected = (
        '{"instead":"before","weekdays":[5,6],'
        '"when":[{"cron_rule":"0 7 * * 1","timezone":"Europe/Paris"}]}'
    )
    assert {expected} == texts


def test_order_and_repetition_of_rules_do_not_matter():
    """The same rules in another order are the same timing with the same text."""
    rules = [{"cron_rule": "0 7 * * 1"}, {"calendar": "daily"}, {"every": "PT1H"}]
    forward = read_timing(when=rules)
    backward = read_timing(when=[*rules[::-1], rules[0]])

    assert timing_text(forward) == timing_text(backward)
