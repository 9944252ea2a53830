"""An entry of redbeat becomes an action that is due when its own schedule is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, schedule
from dateutil.rrule import FR, MO, WE, weekday
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from redbeat.decoder import RedBeatJSONDecoder, RedBeatJSONEncoder
from redbeat.schedules import rrule

from actions.importing.origins.imported import Imported, ImportVerdict
from actions.importing.origins.redbeat import REDBEAT, read_key
from tests.unit.actions.importing.documents import (
    NOW,
    find_first,
    get_document,
    get_when,
    import_one,
)

APP = Celery("oracle", set_as_current=False, broker="memory://")
START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)  # a Monday


def make_rule(freq: str, **parts: Any) -> Any:
    return rrule(freq, dtstart=parts.pop("dtstart", START), app=APP, **parts)


def import_entry(kept: Any, **changes: Any) -> Imported:
    """Import what redbeat would have stored of *kept*."""
    definition = {
        "name": "it",
        "task": "shop.report",
        "args": [],
        "kwargs": {},
        "options": {},
        "schedule": kept,
        "enabled": True,
        **changes,
    }
    text = RedBeatJSONEncoder().encode(definition)
    return import_one(read_key("redbeat:it", text, ""), REDBEAT)


def ask_redbeat(kept: Any, count: int) -> list[datetime]:
    """Return when redbeat is due, by what it reads back of what it stored."""
    text = RedBeatJSONEncoder().encode(kept)
    read = json.loads(text, cls=RedBeatJSONDecoder)
    if read.count is None:
        end = NOW + timedelta(days=60 if read.freq > 4 else 700)
        read.rrule = read.rrule.replace(until=min(read.until or end, end))
    found = islice(read.rrule.xafter(NOW, inc=True), count)
    return [each.astimezone(UTC) for each in found]


WEEKDAYS = st.lists(st.sampled_from([MO, WE, FR, weekday(6)]), min_size=1, max_size=3)
PARTS = st.fixed_dictionaries(
    {"interval": st.integers(1, 13)},
    optional={
        "byweekday": WEEKDAYS,
        "bymonth": st.lists(st.integers(1, 12), min_size=1, max_size=3),
        "bymonthday": st.lists(st.sampled_from([1, 2, 15, 28, -1]), min_size=1),
        "byhour": st.lists(st.integers(0, 23), min_size=1, max_size=2),
        "byminute": st.lists(st.integers(0, 59), min_size=1, max_size=2),
        "bysetpos": st.sampled_from([1, 2, -1]),
        "count": st.integers(1, 60),
        "until": st.sampled_from([datetime(2027, 5, 3, 9, tzinfo=UTC)]),
    },
)


# What never comes costs dateutil ten seconds, so chance does not choose the examples.
@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.sampled_from(["MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY"]), PARTS)
def test_rule_is_due_when_dateutil_says(freq: str, parts: dict[str, Any]):
    """What is imported has the same occurrences as what redbeat reads back."""
    if "until" in parts:
        parts.pop("count", None)
    if freq in {"MINUTELY", "HOURLY"}:  # dateutil takes long for what is rare
        rare = {"bymonth", "bymonthday", "count"}
        parts = {name: part for name, part in parts.items() if name not in rare}
    if freq == "DAILY":  # some steps meet no such day
        parts.pop("byweekday" if parts["interval"] > 1 else "none", None)
    if freq != "MONTHLY":
        parts.pop("bysetpos", None)
    elif "bysetpos" in parts:
        parts.setdefault("byweekday", [MO])
    try:
        kept = make_rule(freq, **parts)
    except ValueError:
        reject()  # dateutil refuses what it can see never to come
    found = import_entry(kept)

    if found.document is None:
        assert "No rule of ours" in found.notes[0] or "over" in found.notes[0], found
    else:
        expected = ask_redbeat(kept, 20)
        assert expected == find_first(found.document, 20)[: len(expected)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (make_rule("MONTHLY", byweekday=FR, bysetpos=-1), "0 9 * * 5L"),
        (make_rule("MONTHLY", byweekday=MO, bysetpos=2), "0 9 * * 1#2"),
        (make_rule("MONTHLY", bymonthday=-1), "0 9 L * *"),
        (
            make_rule("MONTHLY", byweekday=[weekday(n) for n in range(5)], bysetpos=-1),
            "0 9 LW * *",
        ),
        (make_rule("WEEKLY", byweekday=[MO, WE]), "0 9 * * 1,3"),
        (make_rule("MONTHLY", interval=3), "0 9 2 2,5,8,11 *"),
        (make_rule("YEARLY"), "0 9 2 11 *"),
    ],
)
def test_rules_that_cron_can_say(rule: Any, expected: str):
    """The common ones become a cron rule that people can read."""
    when = get_when(import_entry(rule))

    assert {"cron_rule": expected, "timezone": "UTC"} == when


def test_number_of_a_weekday_is_read_where_it_was_kept():
    """Redbeat drops the -1 of FR(-1) when it saves; a key written by others has it."""
    text = RedBeatJSONEncoder().encode(make_rule("MONTHLY", byweekday=FR))
    kept = json.loads(text)
    kept["byweekday"]["n"] = -1
    found = import_entry(kept)

    assert get_when(found)["cron_rule"] == "0 9 * * 5L"


@pytest.mark.parametrize("definition", ["{", "[1]", '{"name": "it"}'])
def test_key_that_something_else_wrote_stops_nothing(definition: str):
    """It is reported by its name, or else by its key."""
    entry = read_key("redbeat:it", definition, "")
    found = import_one(entry, REDBEAT)

    assert entry.name in {"it", "redbeat:it"}
    assert found.verdict is ImportVerdict.CANNOT_BE


def test_every_second_week_on_two_days_is_two_steps():
    """Each weekday has a grid of its own."""
    found = import_entry(make_rule("WEEKLY", interval=2, byweekday=[MO, WE]))

    assert [rule["every"] for rule in get_when(found)] == ["P2W", "P2W"]
    assert ImportVerdict.EXACT is found.verdict


@pytest.mark.parametrize(
    "parts",
    [
        {"interval": 7, "bymonth": 11},
        {"interval": 7, "byweekday": weekday(6)},
        {"interval": 7, "byhour": list(range(12, 24))},
        {"byyearday": 326},
        {"byweekno": 47},
        {"bymonthday": -1, "byweekday": MO},
    ],
)
def test_rule_that_agrees_only_at_first_is_not_taken(parts: dict[str, Any]):
    """All that is compared may be on one day; what comes later must be meant, too."""
    rule = make_rule("MINUTELY", dtstart=NOW.replace(day=1), **parts)
    found = import_entry(rule)

    later = datetime(2027, 1, 5, tzinfo=UTC)
    if found.document is not None:
        expected = [each.astimezone(UTC) for each in rule.rrule.xafter(later, 5)]
        assert expected == find_first(found.document, 5, later + timedelta(seconds=1))


def test_few_that_are_left_are_due_dates():
    """What no rule says can still be named, if it ends soon."""
    found = import_entry(make_rule("DAILY", byweekno=[50], count=14, byhour=9))

    assert {"due_date", "timezone"} == set(get_when(found)[0])


def test_offset_is_that_of_dtstart_all_year():
    """A rule of redbeat has no zone, so neither does ours: the offset stays."""
    start = datetime.fromisoformat("2026-11-02T09:00:00+01:00")
    found = import_entry(make_rule("DAILY", dtstart=start))

    assert get_when(found)["timezone"] == "Etc/GMT-1"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"__type__": "rrule", "freq": 3, "dtstart": 1, "interval": -1}, "interval"),
        ({"__type__": "rrule", "freq": 3}, "dtstart"),
        ({"__type__": "rrule", "freq": 99, "dtstart": 1}, "could not be read"),
        ({"__type__": "moon"}, "not a schedule"),
        (None, "not a schedule"),
    ],
)
def test_what_cannot_be_says_why(rule: Any, words: str):
    """A key that something else wrote stops nothing."""
    found = import_entry(rule)

    assert ImportVerdict.CANNOT_BE is found.verdict
    assert words in found.notes[0]


def test_crontab_interval_and_switch():
    """The other schedules are those of Celery; a disabled entry is not active."""
    by_cron = import_entry(crontab(0, 7, app=APP), enabled=False)
    by_interval = import_entry(schedule(1800.0, app=APP))

    assert get_when(by_cron) == {"cron_rule": "0 7 * * *", "timezone": "Europe/Paris"}
    assert get_document(by_cron)["active"] is False
    assert get_when(by_interval)["every"] == "PT30M"
    assert "fixed grid" in by_interval.notes[0]
