"""Starters over HTTP."""

from __future__ import annotations

from serving.access.roles import Role
from tests.integration.api.conftest import APP, Web


def test_each_starter_can_be_posted_as_it_is(web: Web):
    """
    In an app that has nothing yet, too: what it lacks is a warning.
    """
    items = web.get("/starters", role=Role.VIEWER).json()["items"]

    for each in items:
        posted = web.client.post(
            f"/api/v1/actions?app={APP}",
            content=each["text"],
            headers={
                "Authorization": f"Bearer {web.keys[APP, Role.EDITOR]}",
                "Content-Type": "application/json",
            },
        )
        assert 201 == posted.status_code, posted.text
    assert 13 == len(items)


def test_one_is_read_by_its_kind(web: Web):
    """
    An unknown one is refused with those there are.
    """
    one = web.get("/starters/once").json()
    none = web.get("/starters/onze")

    assert "Once" == one["title"]
    assert 404 == none.status_code
    assert "Did you mean 'once'?" in none.json()["detail"]
