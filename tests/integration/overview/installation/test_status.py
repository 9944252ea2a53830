"""The state of one small app, which tells nothing of the others."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.lease import Leader
from actions.pausing.targets import pause_target
from models.database.tables import domains
from models.errors import NotFoundError
from models.json_form import write_json
from overview.installation.status import AppStatus, fetch_app_status, fetch_status
from overview.installation.workers import fetch_workers
from tests.database import execute, read_by, write_by
from tests.presence import SETTINGS, give_sign, make_worker
from tests.scheduling import (
    HOUR,
    MONDAY,
    add_app,
    add_mails,
    edit_action,
    get_now,
    make_operation,
    post,
    put,
)

OURS, RUNNING = make_operation(0).id, make_operation(2).id


@pytest.fixture(autouse=True)
def _busy(engine: sa.Engine) -> None:
    """Give two apps that have work, a leader and a worker."""
    add_app(engine, "app")
    add_app(engine, "Qother")
    now = get_now(engine)
    put(engine, 0)
    failed = {"state": "failed", "reason": "Qreason", "finished_at": now}
    put(engine, 1, app="Qother", action_uid="Quid", **failed)
    claim = {"state": "running", "worker": "quick@Qhost", "claim_token": RUNNING}
    put(engine, 2, **claim, started_at=now, progress={"step": "refresh"})
    Leader(engine).hold()
    give_sign(engine, make_worker("Qhost", name="quick@Qhost"))


def fetch(engine: sa.Engine, app: str) -> AppStatus:
    return read_by(engine, fetch_app_status, SETTINGS, app)


def test_app_sees_its_own_work(engine: sa.Engine):
    """What waits, what runs, and who takes it; whether somebody leads."""
    found = fetch(engine, "app")

    assert (True, 1, 1) == (
        found.is_led,
        found.backlog["quick"]["pending"],
        found.backlog["quick"]["running"],
    )
    assert [RUNNING] == [each.id for each in found.running]
    assert found.lag_s > 0


def test_app_sees_nothing_of_others(engine: sa.Engine):
    """No name of a host, an app, an action, or of what went wrong there."""
    assert "Q" not in write_json(fetch(engine, "app"))


def test_other_app_sees_its_trouble(engine: sa.Engine):
    """And has no work that waits."""
    found = fetch(engine, "Qother")

    assert ["Qreason"] == [each.reason for each in found.last_hour]
    assert 0 == found.lag_s
    assert [] == found.running


def test_app_sees_what_somebody_has_to_decide(engine: sa.Engine):
    """Of its own actions and mails, as doctor says it of those of all apps."""
    post(engine, uid="bad")
    edit_action(engine, "bad", quarantined_at=get_now(engine), quarantine_reason="no")
    add_mails(engine, OURS, {"ann": "uncertain"})

    told = {
        app: {each.kind for each in fetch(engine, app).findings}
        for app in ("app", "Qother")
    }

    assert {"quarantine", "mails"} == told["app"] - told["Qother"]


def test_app_that_is_paused_is_told_so_and_no_other(engine: sa.Engine):
    """Whoever may know one app alone hears of no pause of another."""
    write_by(engine, pause_target, "app")

    told = [
        [each.title for each in fetch(engine, app).findings if each.kind == "pause"]
        for app in ("app", "Qother")
    ]

    assert [["the app is paused"], []] == told


def test_workers_are_shown_with_what_they_run(engine: sa.Engine):
    """One that is gone runs nothing."""
    give_sign(engine, make_worker("Qgone"), age=HOUR)
    found = read_by(engine, fetch_workers)

    assert [("celery@Qgone", False, []), ("quick@Qhost", True, [RUNNING])] == [
        (each.name, each.alive, [run.id for run in each.running]) for each in found
    ]


def test_installation_sees_all_that_runs(engine: sa.Engine):
    """And how long the oldest waits."""
    found = read_by(engine, fetch_status, SETTINGS)

    assert [RUNNING] == [each.id for each in found.running]
    assert found.lag_s > 0
    assert found.tick_age_s is None


def test_unknown_app_is_unknown(engine: sa.Engine):
    with pytest.raises(NotFoundError):
        fetch(engine, "never")


def test_last_success_and_last_data_are_told(engine: sa.Engine):
    """Of the installation and of each app; null where there has been none."""
    for uid in ("shop", "books", "new"):
        add_app(engine, uid)
    for number, (app, state) in enumerate(
        [("shop", "succeeded"), ("books", "succeeded"), ("shop", "failed")]
    ):
        ended_at = MONDAY + number * HOUR
        put(engine, number + 3, app=app, state=state, finished_at=ended_at)
    domain = {"app": "shop", "name": "a", "source": {"file": "a.csv"}}
    execute(engine, sa.insert(domains), {**domain, "published_at": MONDAY})
    whole = read_by(engine, fetch_status, SETTINGS)
    apps = {uid: fetch(engine, uid) for uid in ("shop", "books", "new")}

    assert (MONDAY + HOUR, MONDAY) == (whole.last_success_at, whole.data_updated_at)
    told = {
        uid: (each.last_success_at, each.data_updated_at) for uid, each in apps.items()
    }
    assert {
        "shop": (MONDAY, MONDAY),
        "books": (MONDAY + HOUR, None),
        "new": (None, None),
    } == told
