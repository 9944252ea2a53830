"""What actions did lately and will do, and all of them in figures, over HTTP."""

from __future__ import annotations

from tests.integration.api.conftest import APP, OTHER, Web
from tests.integration.api.test_actions import create
from tests.scheduling import (
    MINUTE,
    MONDAY,
    edit,
    get_now,
    make_document,
    make_operation,
    record_all,
)


def run(web: Web, uid: str, state: str, ago: int) -> None:
    """Record an operation of so many minutes ago, which took a minute."""
    now = get_now(web.engine)
    occurrence = (now - ago * MINUTE).replace(microsecond=0)
    (made,) = record_all(
        web.engine,
        make_operation(ago, action_uid=uid, app=APP, occurrence=occurrence),
    )
    ended = {"started_at": MONDAY, "finished_at": MONDAY + MINUTE}
    edit(web.engine, made, state=state, **ended)


def test_a_list_has_the_latest_runs_of_each(web: Web):
    """
    If they are asked for; also of an action that has not run.
    """
    uid = create(web)
    create(web, name="new")
    run(web, uid, "succeeded", 2)
    run(web, uid, "failed", 1)

    daily, new = web.get("/actions?runs=20").json()["items"]
    plain, _ = web.get("/actions").json()["items"]

    assert ["failed", "succeeded"] == [r["state"] for r in daily["recent"]["runs"]]
    assert 60.0 == daily["recent"]["median_s"]
    assert {"runs": [], "median_s": None} == new["recent"]
    assert plain["recent"] is None
    assert 422 == web.get("/actions?runs=21").status_code


def test_the_next_due_come_first_over_http(web: Web):
    """
    In parts; a cursor of the other order is refused.
    """
    hourly = create(web, name="z", when={"cron_rule": "0 * * * *"})
    create(web, name="a", when={"due_date": "2035-12-01T09:00:00"})

    first = web.get("/actions?sort=next&limit=1").json()

    assert hourly == first["items"][0]["uid"]
    rest = web.get(f"/actions?sort=next&cursor={first['next_cursor']}").json()
    assert (["a"], None) == ([a["name"] for a in rest["items"]], rest["next_cursor"])
    assert 422 == web.get(f"/actions?cursor={first['next_cursor']}").status_code


def test_one_action_tells_of_its_runs_and_days(web: Web):
    """
    Its latest operations with what they took, and the counts of each day.
    """
    uid = create(web)
    run(web, uid, "succeeded", 1)
    run(web, uid, "failed", 3)

    runs = web.get(f"/actions/{uid}/runs?limit=1").json()
    days = web.get(f"/actions/{uid}/days?weeks=2").json()

    assert [("succeeded", 60.0)] == [(r["state"], r["took_s"]) for r in runs["runs"]]
    counted = [state for day in days["days"] for state in day["counts"]]
    assert {"succeeded", "failed"} == set(counted)
    assert ("UTC", True, []) == (days["zone"], days["is_whole"], days["missed"])
    for path in ("runs", "days", "preview"):
        assert 404 == web.get(f"/actions/{uid}/{path}", app=OTHER).status_code
        assert 404 == web.get(f"/actions/unknown/{path}").status_code


def test_a_stored_action_is_previewed(web: Web):
    """
    In three zones, with the clock changes that touch it.
    """
    when = {"cron_rule": "30 2 * * *", "timezone": "Europe/Paris"}
    uid = create(web, when=when)

    found = web.get(f"/actions/{uid}/preview?count=3&timezone=Asia/Tokyo").json()

    assert [("Europe/Paris", "Asia/Tokyo")] * 3 == [
        (each["zone"], each["viewer_zone"]) for each in found["occurrences"]
    ]
    assert 2 == len(found["clock_changes"])
    assert 422 == web.get(f"/actions/{uid}/preview?timezone=Mars/Base").status_code


def test_actions_are_counted_within_an_app(web: Web):
    """
    A key of one app counts those of its app alone.
    """
    create(web)
    create(web, name="off", active=False)

    found = web.get("/action-counts?state=active").json()

    assert (1, {"active": 1, "inactive": 1}) == (found["total"], found["states"])
    assert 0 == web.get("/action-counts", app=OTHER).json()["total"]
    assert {APP: 2} == web.get("/action-counts", app=None).json()["apps"]
    assert 404 == web.get(f"/action-counts?app={OTHER}").status_code


def test_documents_of_a_selection_can_be_posted_again(web: Web):
    """
    Those that are named, or those that match; elsewhere they make the same actions.
    """
    uid = create(web)
    create(web, name="other")

    (found,) = web.get(f"/action-documents?uid={uid}&uid=unknown").json()["items"]
    all_ = web.get("/action-documents?limit=1").json()

    assert (uid, APP, "daily") == (
        found["uid"],
        found["app"],
        found["document"]["name"],
    )
    assert 1 == len(all_["items"])
    assert all_["next_cursor"] is not None
    assert [] == web.get(f"/action-documents?uid={uid}", app=OTHER).json()["items"]
    document = found["document"] | make_document(name="again", uid="again")
    batch = web.post("/actions/batch", [document], app=OTHER)
    assert 200 == batch.status_code, batch.text
