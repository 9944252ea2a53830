"""The calendar file of an app has what ticks will find, under its later ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

import actions.load.calendar_file
from actions.load.calendar_file import AHEAD, CalendarFile, make_calendar_file
from actions.occurrences import find_due, parse_timing
from actions.pausing.pause_and_resume import pause_action
from models.errors import NotFoundError
from models.occurrence import make_operation_id
from tests.database import read_by, write_by
from tests.scheduling import add_app, edit_action, fetch_action, get_now, post

HOURLY = {"cron_rule": "30 * * * *", "timezone": "Europe/Paris"}


@pytest.fixture(autouse=True)
def _apps(engine: sa.Engine) -> None:
    add_app(engine, "shop")
    add_app(engine, "books")


def make(engine: sa.Engine, **options: str) -> CalendarFile:
    return read_by(engine, make_calendar_file, "shop", **options)


def unfold(found: CalendarFile) -> str:
    return found.text.replace("\r\n ", "")


def get_values(found: CalendarFile, name: str) -> list[str]:
    lines = unfold(found).split("\r\n")
    return [line.removeprefix(f"{name}:") for line in lines if line.startswith(name)]


def expect(engine: sa.Engine, uid: str) -> list[tuple[str, str]]:
    now = get_now(engine)
    timing = parse_timing(fetch_action(engine, uid).timing)
    return [
        (f"{each.due_at:%Y%m%dT%H%M%SZ}", str(make_operation_id(uid, each.occurrence)))
        for each in find_due(timing, uid, start=now, now=now + AHEAD)
    ]


def test_each_occurrence_is_there_with_the_id_of_its_operation(engine: sa.Engine):
    """At the instant at which it will be sent, in order, for 30 days."""
    post(engine, "shop", uid="hourly", when=HOURLY, jitter="PT20M")
    post(engine, "books", uid="other", when=HOURLY)

    found = make(engine, web_url="https://minutehand.example")

    expected = expect(engine, "hourly")
    ours = list(
        zip(get_values(found, "DTSTART"), get_values(found, "UID"), strict=True)
    )
    # the file may have been made a minute earlier than what is expected
    assert ours[1:719] == expected[expected.index(ours[1]) :][:718]
    assert 719 <= found.entries <= 721
    assert {"daily"} == set(get_values(found, "SUMMARY"))
    assert {"https://minutehand.example/actions/hourly"} == set(
        get_values(found, "URL")
    )
    assert (
        "Every hour\\, at minute 30\\, Europe/Paris\\; up to 20 minutes later."
        in unfold(found)
    )
    same = [("SEQUENCE", "1"), ("CATEGORIES", "tasks"), ("TRANSP", "TRANSPARENT")]
    assert same == [(name, *set(get_values(found, name))) for name, _ in same]
    changed_at = fetch_action(engine, "hourly").updated_at
    assert {f"{changed_at:%Y%m%dT%H%M%SZ}"} == set(get_values(found, "DTSTAMP"))


def test_what_is_due_too_often_is_named_instead(engine: sa.Engine):
    """It would hide all others."""
    post(engine, "shop", name="often", when={"cron_rule": "*/30 * * * *"})
    post(engine, "shop", name="daily")

    found = make(engine)

    assert ["often"] == found.left_out
    assert {"daily"} == set(get_values(found, "SUMMARY"))
    assert "Without what is due more often than hourly: often." in unfold(found)


def test_what_does_not_run_is_not_there(engine: sa.Engine):
    for name in ("paused", "broken"):
        post(engine, "shop", uid=name, name=name)
    post(engine, "shop", name="events", when={"on": "app.x"})
    edit_action(engine, "broken", timing='{"when":1}')
    write_by(engine, pause_action, "paused")

    found = make(engine)

    assert 0 == found.entries
    assert "BEGIN:VTIMEZONE" in found.text  # the grammar wants a component


def test_a_large_app_has_a_file_that_reaches_less_far(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """It has all until an instant that it names."""
    monkeypatch.setattr(actions.load.calendar_file, "MOST_ENTRIES", 10)
    post(engine, "shop", uid="hourly", when=HOURLY)

    found = make(engine)

    assert 10 == found.entries
    assert found.until < datetime.now(UTC) + timedelta(hours=12)
    monkeypatch.setattr(actions.load.calendar_file, "MOST_ACTIONS", 1)
    due_date = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"
    post(engine, "shop", uid="later", name="later", when={"due_date": due_date})
    fewer = make(engine)
    assert fetch_action(engine, "later").next_due_at >= fewer.until
    assert {"daily"} == set(get_values(fewer, "SUMMARY"))


def test_what_would_hide_others_in_a_short_file_is_named(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """No more days are looked at than the file reaches; their hours are what counts."""
    soon = get_now(engine) + timedelta(hours=2)
    burst = f"*/2 {soon.hour} {soon.day} {soon.month} *"
    post(engine, "shop", name="burst", when={"cron_rule": burst, "timezone": "UTC"})
    post(engine, "shop", name="hourly", when=HOURLY)
    assert [] == make(engine).left_out

    monkeypatch.setattr(actions.load.calendar_file, "MOST_ENTRIES", 10)

    assert ["burst"] == make(engine).left_out


def test_an_unknown_app_has_none(engine: sa.Engine):
    with pytest.raises(NotFoundError):
        read_by(engine, make_calendar_file, "none")
