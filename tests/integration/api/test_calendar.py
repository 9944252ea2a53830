"""Calendar files, over HTTP."""

from __future__ import annotations

from tests.integration.api.conftest import APP, OTHER, Web
from tests.scheduling import post


def test_a_calendar_file_is_one(web: Web):
    """With the type that calendar programs look for."""
    post(web.engine, APP, uid="daily")

    answer = web.get(f"/apps/{APP}/calendar.ics")

    assert "text/calendar; charset=utf-8" == answer.headers["Content-Type"]
    assert f'inline; filename="{APP}.ics"' == answer.headers["Content-Disposition"]
    assert answer.text.startswith("BEGIN:VCALENDAR\r\n")
    assert 404 == web.get(f"/apps/{OTHER}/calendar.ics").status_code
