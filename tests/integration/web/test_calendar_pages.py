"""The calendar, what is planned, and the timeline: what they show, and to whom."""

from __future__ import annotations

from functools import partial
from itertools import count

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from actions.load.forecast import forecast_load
from actions.load.foresee import foresee
from models.role import Role
from tests.integration.web.conftest import Browser, enter_as, read, take_away
from tests.scheduling import add_app, post

#: Long after all that is posted here takes effect.
WEEK = "/calendar?week=2031-W02"
HOUR = "/calendar/planned?from=2031-01-06T07:00:00Z&until=2031-01-06T08:00:00Z"
STRETCH = "/timeline?from=2031-01-06T05:00:00Z&span=6h"
PAGES = (WEEK, HOUR, STRETCH)


@pytest.fixture
def _actions(engine: sa.Engine) -> None:
    """Give two small apps with an action each."""
    for app in ("shop", "books"):
        add_app(engine, app)
        post(engine, app, uid=f"{app}-daily", name=f"Daily of {app}")


@pytest.mark.usefixtures("_actions")
def test_pages_show_what_is_planned(ada: TestClient):
    """As a number in its hour, by name in the list of the hour, and in a lane."""
    week, hour, stretch = (read(ada, path) for path in PAGES)

    assert "6 to 12 January. 14 runs are planned." in week
    assert 'aria-label="2: Mon 07:00, 2 planned"' in week
    assert (
        "/calendar/planned?from=2031-01-06T07%3A00%3A00Z"
        "&until=2031-01-06T08%3A00%3A00Z" in week
    )
    assert "2 runs are planned" in hour
    for name in ("Daily of shop", "Daily of books"):
        assert name in hour
        assert name in stretch
    assert "Nothing collides" in stretch


@pytest.mark.usefixtures("_actions")
def test_filters_are_kept_from_page_to_page(ada: TestClient):
    """And the calendar of one app can be subscribed to."""
    pages = [read(ada, f"{path}&app=shop&queue=quick") for path in PAGES]

    for page in pages:
        assert "books-daily" not in page
    assert 'href="/api/v1/apps/shop/calendar.ics"' in pages[0]
    assert "calendar.ics" not in read(ada, WEEK)
    file = ada.get("/api/v1/apps/shop/calendar.ics")
    assert file.text.startswith("BEGIN:VCALENDAR\r\n")
    assert "text/calendar; charset=utf-8" == file.headers["Content-Type"]
    assert 'inline; filename="shop.ics"' == file.headers["Content-Disposition"]
    for page in pages[::2]:
        assert "app=shop&queue=quick" in page


@pytest.mark.usefixtures("_actions")
def test_tenant_sees_only_its_own(browser: TestClient, engine: sa.Engine):
    """Whatever the link asks for."""
    enter_as(browser, engine, Role.VIEWER, "shop")

    for path in PAGES:
        page = read(browser, f"{path}&app=books")
        assert "There is no app 'books'" in page
        assert "books" not in page.replace("'books'", "").replace("app=books", "")


TOLD = {
    "/calendar?week=43": "'43' is not a week, such as",
    "/calendar?week=9999-W01": "too far away",
    "/calendar?queue=slow": "There is no queue 'slow'",
    "/calendar/planned?from=tomorrow": "from: 'tomorrow' is not",
    f"{HOUR[:-20]}2031-02-06T08:00:00Z": "is not a period of up to a day",
    "/timeline?span=9h": "only 1h, 6h, 24h, 7d",
    "/timeline?from=9989-12-31T23:00:00Z": "Nothing ran here",
    "/timeline?app=none": "There is no app 'none'",
    "/calendar": "Nothing is due.",
    "/timeline": "Nothing ran here, and nothing is due",
    "/calendar/planned": "Nothing is planned",
}


def test_what_cannot_be_shown_is_told(ada: TestClient):
    """On a page that shows something all the same."""
    assert [] == [path for path in TOLD if TOLD[path] not in read(ada, path)]


def test_load_that_there_is_no_time_to_count_is_not_nothing(
    ada: TestClient, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """On a busy host; how much is left out stands in its place."""
    add_app(engine, "shop")
    post(engine, "shop")
    late = partial(forecast_load, monotonic=count(step=10**9).__next__)
    monkeypatch.setattr("web.calendar.routes.forecast_load", late)

    page = read(ada, "/calendar")

    assert "Nothing is planned in the next 7 days" not in page
    assert "1 action is not counted: there was no time." in page


@pytest.mark.usefixtures("_actions")
def test_nor_is_an_hour(ada: TestClient, monkeypatch: pytest.MonkeyPatch):
    """The list of an hour does not say that there is nothing."""
    late = partial(foresee, monotonic=count(step=10**9).__next__)
    monkeypatch.setattr("web.calendar.fetch_calendar.foresee", late)

    hour = read(ada, HOUR)

    assert "Nothing is planned" not in hour
    assert "What is planned could not be counted in time" in hour


PARTS = (
    ("/calendar", "web.calendar.routes.fetch_calendar", "The calendar could not"),
    ("/calendar", "web.calendar.routes.forecast_load", "The load ahead could not"),
    ("/timeline", "web.timeline.routes.fetch_timeline", "The timeline could not"),
    (HOUR, "web.calendar.routes.list_planned", "What is planned could not"),
    ("/timeline", "web.query.fetch_app_choices", "The timeline could not"),
)


def test_a_part_that_cannot_be_read_is_told(
    browse: Browser, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """With the reason; the rest of the page stays."""
    for path, part, told in PARTS:
        # a server keeps what took it long
        browser = enter_as(browse(), engine, Role.VIEWER)
        with monkeypatch.context() as patch:
            take_away(patch, part)
            page = read(browser, path)

        assert told in page, part
        assert "the database does not answer" in page, part
