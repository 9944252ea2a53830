"""The calendar, the timeline and calendar files, over HTTP."""

from __future__ import annotations

import pytest

from tests.integration.api.conftest import APP, OTHER, Web
from tests.scheduling import post

DAY = "first=2031-01-06&days=1"


def test_a_calendar_has_days_and_hours(web: Web):
    """
    Of the caller's app alone.
    """
    post(web.engine, APP, uid="daily")
    post(web.engine, OTHER, name="other")

    mine = web.get(f"/calendar?{DAY}&zone=Europe/Paris").json()
    everything = web.get(f"/calendar?{DAY}", app=None).json()

    (day,) = mine["days"]
    assert ("2031-01-06", None, 24) == (day["date"], day["change"], len(day["hours"]))
    eight = day["hours"][8]
    assert ("planned", 1) == (eight["kind"], eight["planned"])
    assert "2031-01-06T08:00:00+01:00" == eight["starts"]["local"]
    assert [2] == [
        each["planned"] for each in everything["days"][0]["hours"] if each["planned"]
    ]


def test_a_planned_hour_names_its_actions(web: Web):
    """
    Those of the caller.
    """
    post(web.engine, APP, uid="daily")
    post(web.engine, OTHER, name="other")

    found = web.get("/planned?from=2031-01-06T07:00:00Z").json()

    (minute,) = found["minutes"]
    assert (1, True) == (found["total"], found["is_whole"])
    assert [{"uid": "daily", "app": APP, "name": "daily"}] == minute["actions"]


def test_a_timeline_has_lanes(web: Web):
    """
    Those of the caller.
    """
    post(web.engine, APP, uid="daily")
    post(web.engine, OTHER, name="other")

    window = "from=2031-01-06T00:00:00Z&until=2031-01-07T00:00:00Z"
    found = web.get(f"/timeline?{window}").json()

    (lane,) = found["lanes"]
    assert ("daily", ["2031-01-06T07:00:00Z"]) == (lane["action"], lane["planned"])
    assert (0, 1) == (found["ran"], found["due"])


def test_a_calendar_file_is_one(web: Web):
    """
    With the type that calendar programs look for.
    """
    post(web.engine, APP, uid="daily")

    answer = web.get(f"/apps/{APP}/calendar.ics")

    assert "text/calendar; charset=utf-8" == answer.headers["Content-Type"]
    assert f'inline; filename="{APP}.ics"' == answer.headers["Content-Disposition"]
    assert answer.text.startswith("BEGIN:VCALENDAR\r\n")
    assert 404 == web.get(f"/apps/{OTHER}/calendar.ics").status_code


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/calendar?zone=Europe/Pari", 422),
        ("/calendar?days=16", 422),
        ("/calendar?first=9999-12-31", 422),
        (f"/calendar?app={OTHER}", 404),
        ("/planned?from=2031-01-06T07:00:00Z&until=2031-01-08T07:00:00Z", 400),
        ("/timeline?from=2031-01-06T07:00:00Z&until=2031-01-06T07:10:00Z", 400),
        ("/timeline?lanes=101", 422),
        (f"/timeline?app={OTHER}", 404),
    ],
)
def test_unfit_questions_are_refused(web: Web, path: str, status: int):
    """
    With what would do.
    """
    assert web.get(path).status_code == status
