"""Previews, and the load that is coming, over HTTP."""

from __future__ import annotations

from tests.integration.api.conftest import APP, Web
from tests.scheduling import post

DAY = "from=2031-01-06T00:00:00Z&until=2031-01-07T00:00:00Z"


def test_load_has_quiet_windows(web: Web):
    """Of a week, with what it costs at another time."""
    post(web.engine, APP, uid="daily")
    begin, seven = "from=2031-01-06T00:00:00Z", "at=2031-01-06T06:59:00Z"

    found = web.get(f"/load?{begin}&quiet=PT20M&{seven}").json()

    assert 8 == len(found["quiet"]["windows"])
    assert {
        "from": "2031-01-06T06:59:00Z",
        "until": "2031-01-06T07:19:00Z",
        "late": 0,
        "missed": 1,
        "actions": [{"uid": "daily", "app": APP, "name": "daily"}],
    } == found["quiet"]["outage"]
    assert None is web.get(f"/load?{DAY}").json()["quiet"]
