"""What needs a look in each small app, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import reading
from models.database.tables import domains
from models.paging import Page
from overview.small_apps import (
    AppStanding,
    fetch_app_part,
    fetch_listed_apps,
    fetch_standings,
)
from tests.database import execute, read_by
from tests.scheduling import HOUR, add_app, add_mails, edit_action, get_now, post, put


@pytest.fixture(autouse=True)
def _apps(engine: sa.Engine) -> None:
    """Give every test an app in trouble, and one that is well."""
    add_app(engine)
    add_app(engine, "calm")


CALM = AppStanding(0, 0, None, 0, 0, 0, 0, is_whole=True)


def _fetch(engine: sa.Engine) -> dict[str, AppStanding]:
    return dict(read_by(engine, fetch_standings, ["app", "calm"]))


def _end(engine: sa.Engine, number: int, state: str, hours: int) -> None:
    """Record an operation that ended in *state* so many hours ago."""
    put(engine, number, state=state, finished_at=get_now(engine) - hours * HOUR)


def test_app_that_is_well_needs_no_look(engine: sa.Engine):
    """Nor does one of which nothing is known."""
    post(engine, "calm")

    assert CALM == _fetch(engine)["calm"]
    assert not CALM.needs_look


def test_what_went_wrong_within_a_day_is_counted(engine: sa.Engine):
    """Failed and missed operations, each by itself, and no older ones."""
    for number, (state, hours) in enumerate(
        [("failed", 2), ("failed", 1), ("missed", 3), ("failed", 25), ("succeeded", 1)]
    ):
        _end(engine, number, state, hours)

    found = _fetch(engine)["app"]

    assert (2, 1) == (found.failed, found.missed)
    assert found.last_trouble_at is not None
    assert found.last_trouble_at > get_now(engine) - 2 * HOUR
    assert found.needs_look
    assert found.is_whole


def test_actions_that_do_not_run_are_counted(engine: sa.Engine):
    """One in quarantine counts as that, even if it is paused, too."""
    now = get_now(engine)
    edit_action(engine, post(engine, name="a").uid, paused_at=now)
    for name in "bc":
        uid = post(engine, name=name).uid
        edit_action(engine, uid, paused_at=now, quarantined_at=now)
    edit_action(engine, post(engine, name="d").uid, active=False)

    found = _fetch(engine)["app"]

    assert (1, 2) == (found.paused, found.quarantined)


def test_uncertain_mails_are_counted_whoever_wrote_them(engine: sa.Engine):
    """Those of a program that does not write the app of a mail, too."""
    made, now = put(engine), get_now(engine)
    mails = {"ann": "uncertain", "ben": "failed"}
    add_mails(engine, made, mails, at=now, app="app")
    add_mails(engine, made, {"zoe": "uncertain"}, at=now)

    found = _fetch(engine)

    assert [2, 0] == [found[app].uncertain for app in ("app", "calm")]


def test_data_that_are_not_live_are_counted(engine: sa.Engine):
    """Staged and never published, or published before that; not what is live."""
    versions = (("new", 1, None), ("newer", 3, 2), ("live", 2, 2), ("none", None, None))
    names = ("name", "staged_version", "live_version")
    rows: list[dict[str, Any]] = [
        {"app": "app", "source": {}, **dict(zip(names, each, strict=True))}
        for each in versions
    ]
    execute(engine, sa.insert(domains), rows)

    assert 2 == _fetch(engine)["app"].unpublished


def test_lists_tell_it(engine: sa.Engine):
    _end(engine, 0, "failed", 1)

    with reading(engine) as connection:
        whole = fetch_listed_apps(connection)
        part = fetch_app_part(connection, Page())
        other = fetch_app_part(connection, Page(), app="calm")

    assert [1, 0] == [each.standing.failed for each in whole]
    assert whole == part.entries
    assert [CALM] == [each.standing for each in other.entries]
