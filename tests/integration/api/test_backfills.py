"""Backfills over HTTP: listed, started, followed and canceled."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from models.database.tables import backfills
from tests.database import fetch_rows
from tests.integration.api.conftest import APP, Web
from tests.integration.dispatch.backfills.backfilling import make_backfiller
from tests.scheduling import fetch_all, post

WEEK = {"from": "2026-01-05T00:00:00Z", "until": "2026-01-12T00:00:00Z"}
PATH = "/actions/daily/backfills"


@pytest.fixture(autouse=True)
def _action(web: Web) -> None:
    """Give every test an action that is due each day."""
    post(web.engine, APP, uid="daily")


def test_it_is_listed_before_it_is_started(web: Web):
    """200 with the list, and nothing is stored."""
    answer = web.post(PATH, {**WEEK, "dry_run": True})

    assert 200 == answer.status_code
    assert {"total": 7, "by_recorded": {"nothing": 7}}.items() <= answer.json().items()
    assert "2026-01-05T07:00:00Z" == answer.json()["occurrences"][0]["occurrence"]
    assert fetch_rows(web.engine, sa.select(backfills)).first() is None


def test_it_is_started_and_followed(web: Web):
    """202 says where its progress is."""
    answer = web.post(PATH, {**WEEK, "at_once": 2, "expected_count": 7, "note": "x"})
    made = answer.json()
    make_backfiller(web.engine).look()

    shown = web.get(f"/backfills/{made['id']}").json()

    assert answer.status_code == 202
    assert answer.headers["location"] == f"/api/v1/backfills/{made['id']}"
    expected = {"state": "running", "progress": {"pending": 2, "waiting": 5}}
    expected |= {"requested_by": f"admin of {APP}", "note": "x"}
    assert expected.items() <= shown.items()
    assert 2 == len(fetch_all(web.engine))
