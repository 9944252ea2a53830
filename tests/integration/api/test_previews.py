"""Previews over HTTP."""

from __future__ import annotations

import pytest

from api.routes.action_examples import PREVIEWS
from models.role import Role
from tests.integration.api.conftest import APP, Web


@pytest.mark.parametrize("name", PREVIEWS)
def test_examples_work(web: Web, name: str):
    """Whoever may read may preview; nothing is stored."""
    answer = web.post(
        f"/previews?app={APP}&count=3&timezone=Asia/Tokyo",
        PREVIEWS[name],
        role=Role.VIEWER,
    )

    assert 200 == answer.status_code
    assert 3 == len(answer.json()["occurrences"])
    assert {"Asia/Tokyo"} == {e["viewer_zone"] for e in answer.json()["occurrences"]}
    assert [] == web.get("/actions").json()["items"]


def test_bad_previews_say_where(web: Web):
    """In the body by pointer, line and column; in the query by name."""
    body = web.post("/previews", {"when": {"cron_rule": "61 * * * *"}})
    zone = web.post("/previews?timezone=Mars/Base", PREVIEWS["only when"])
    count = web.post("/previews?count=1001", PREVIEWS["only when"])

    assert ("/when/cron_rule", 1) == (
        body.json()["errors"][0]["pointer"],
        body.json()["errors"][0]["line"],
    )
    assert (422, "timezone") == (
        zone.status_code,
        zone.json()["errors"][0]["parameter"],
    )
    assert 422 == count.status_code
    assert 404 == web.post("/previews?app=never", PREVIEWS["only when"]).status_code
