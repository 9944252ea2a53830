"""What is wrong now and what comes next, minute by minute, and the search."""

from __future__ import annotations

import pytest

from tests.integration.api.conftest import APP, OTHER, Web
from tests.scheduling import edit, get_now, make_operation, post, record_all


def test_now_is_told_to_each_caller(web: Web):
    """
    Those of an app are told of their app, and of no host.
    """
    post(web.engine, APP, uid="daily")
    for number, app in enumerate((APP, OTHER)):
        made = make_operation(number, app=app)
        record_all(web.engine, made)
        edit(
            web.engine,
            made.id,
            state="failed",
            error=f"{app} failed",
            finished_at=get_now(web.engine),
        )

    mine = web.get("/now").json()
    everything = web.get("/now", app=None).json()
    asked = web.get(f"/now?app={APP}", app=None).json()

    assert (APP, 1, f"{APP} failed") == (
        mine["app"],
        mine["failures"]["count"],
        mine["failures"]["causes"][0]["cause"],
    )
    assert (None, 2) == (everything["app"], everything["failures"]["count"])
    assert ["daily"] == list({each["uid"] for each in asked["next"]})
    assert "bad" == everything["verdict"]["health"]  # nobody leads


def test_minutes_have_what_is_planned(web: Web):
    """
    For an hour, and nothing of other apps.
    """
    post(web.engine, APP, when={"cron_rule": "* * * * *"})

    mine = web.get("/minutes").json()
    theirs = web.get("/minutes", app=OTHER).json()

    assert [{"planned": 1}] * 60 == [each["counts"] for each in mine["minutes"]]
    assert [] == theirs["minutes"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/now?app={OTHER}", 404),
        (f"/minutes?app={OTHER}", 404),
        ("/now?apps=x", 422),
    ],
)
def test_unfit_questions_are_refused(web: Web, path: str, status: int):
    """
    Another's app is unknown, and so are other parameters.
    """
    assert web.get(path).status_code == status
