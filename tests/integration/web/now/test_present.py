"""All of Now together: what runs, what comes, how long things wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from actions.leader import Leader
from models.database.engine import db_now, reading, writing
from models.database.tables import leases, operation_steps, processes
from models.errors import NotFoundError
from models.json_form import write_json
from overview.doctor.finding import Health
from web.now.present import Now, fetch_now
from tests.presence import SETTINGS, give_sign, make_worker
from tests.scheduling import (
    MINUTE,
    add_app,
    edit,
    get_now,
    make_operation,
    post,
    record_all,
)


def fetch(engine: sa.Engine, **options: Any) -> Now:
    with reading(engine) as connection:
        return fetch_now(connection, SETTINGS, **options)


def put(engine: sa.Engine, number: int, **values: Any) -> Any:
    """Record an operation with *values*, and return its id."""
    made = make_operation(number, app=values.pop("app", "app"))
    record_all(engine, made)
    edit(engine, made.id, **values)
    return made.id


def add_step(engine: sa.Engine, operation_id: Any, position: int, **values: Any):
    """Add a step of an operation."""
    with writing(engine) as connection:
        connection.execute(
            sa.insert(operation_steps).values(
                operation_id=operation_id, position=position, **values
            )
        )


def test_new_installation_has_nothing_scheduled(engine: sa.Engine):
    """
    Somebody leads, so all is well.
    """
    Leader(engine).hold()

    found = fetch(engine)

    assert (Health.GOOD, "Ticking. Nothing is scheduled yet.") == (
        found.verdict.health,
        found.verdict.headline,
    )
    assert not found.pulse.has_actions
    assert found.lag.p95 is None


def test_running_operation_has_step_and_end(engine: sa.Engine):
    """
    From what its former runs took, and from its steps.
    """
    now = get_now(engine)
    for number in range(3):
        ran: dict[str, Any] = {
            "state": "succeeded",
            "started_at": now - 60 * MINUTE,
            "finished_at": now - 52 * MINUTE,
        }
        done = put(engine, number, **ran)
        add_step(engine, done, 0, name="refresh", **ran)
    id_ = put(
        engine, 9, state="running", started_at=now - 2 * MINUTE, attempt=1, worker="w"
    )
    began = now - 2 * MINUTE
    add_step(engine, id_, 0, name="refresh", state="running", started_at=began)
    add_step(engine, id_, 1, name="publish", state="skipped")

    (each,) = fetch(engine).as_json()["running"]

    assert (id_, "refresh", 1, 1, began + 8 * MINUTE, 480.0, 3) == (
        each["id"],
        each["step"],
        each["step_number"],
        each["step_count"],
        each["eta"],
        each["usual_s"],
        each["usual_of"],
    )
    assert each["share"] is not None
    assert 0.2 < each["share"] < 0.9


def test_retry_says_when_it_comes_again(engine: sa.Engine):
    """
    It is pending after an attempt that failed; a new one is not listed.
    """
    again = get_now(engine) + MINUTE
    put(engine, 0, attempt=0)
    id_ = put(engine, 1, attempt=1, send_at=again, error="refresh: 503", reason="x")

    (each,) = fetch(engine).under_way

    assert (id_, True, again, "refresh: 503") == (
        each.id,
        each.is_retrying,
        each.again_at,
        each.error,
    )


def test_next_occurrences_are_of_all_actions(engine: sa.Engine):
    """
    One that is due each minute has as many as come before the others.
    """
    add_app(engine)
    post(engine, name="minutely", when={"cron_rule": "* * * * *"})
    post(engine, name="hourly", when={"cron_rule": "0 * * * *"})

    found = fetch(engine).coming

    dues = [each.due_at for each in found]
    assert (10, sorted(dues)) == (len(found), dues)
    assert {"minutely"} <= {each.name for each in found}
    assert [] == list(fetch_coming_of(engine, "other"))


def fetch_coming_of(engine: sa.Engine, app: str) -> Any:
    add_app(engine, app)
    return fetch(engine, app=app).coming


def test_lag_is_the_wait_of_most(engine: sa.Engine):
    """
    Of twenty, nineteen began within two seconds.
    """
    now = get_now(engine)
    for number in range(20):
        waits = 100 if number == 7 else 2
        put(
            engine,
            number,
            recorded_at=now - 5 * MINUTE,
            started_at=now - 5 * MINUTE + timedelta(seconds=waits),
        )

    found = fetch(engine).lag.as_json()

    assert found["p95_s"] == pytest.approx(2, abs=0.01)
    assert (20, 1) == (found["count"], len(found["minutes"]))


def test_queue_without_worker_is_told(engine: sa.Engine):
    """
    What is to be sent later does not wait.
    """
    Leader(engine).hold()
    give_sign(engine, make_worker("a", queues=["heavy"]))
    give_sign(engine, make_worker("b"), age=30 * MINUTE)
    past = get_now(engine) - 5 * MINUTE
    put(engine, 0, recorded_at=past, send_at=past, state="queued", sent_at=past)
    put(engine, 1, send_at=get_now(engine) + MINUTE)

    found = fetch(engine).as_json()

    assert "Ticking, but no worker takes quick." == found["verdict"]["headline"]
    assert (1, 0) == (
        found["pulse"]["queues"]["quick"]["waiting"],
        found["pulse"]["queues"]["quick"]["workers"],
    )
    assert (1, 1) == (found["pulse"]["workers"], found["pulse"]["silent_workers"])


def test_app_sees_nothing_of_others(engine: sa.Engine):
    """
    Neither hosts, nor apps, nor actions, nor what went wrong there.
    """
    add_app(engine)
    add_app(engine, "Qother")
    post(engine, "Qother", name="Qname", uid="Quid")
    put(
        engine,
        0,
        app="Qother",
        action_uid="Quid",
        triggered_by='Scheduled action "Qname"',
        state="failed",
        error="Qerror",
        finished_at=get_now(engine),
    )
    put(engine, 1, app="Qother", action_uid="Quid", state="running", worker="Qw")
    put(engine, 2, app="Qother", action_uid="Quid", state="skipped", reason="Qreason")
    Leader(engine).hold()
    with engine.begin() as connection:
        connection.execute(
            sa.update(leases).values(
                hostname="Qhost",
                heartbeat_at=db_now(-MINUTE / 2),
                send_failing_since=db_now(),
                send_error="Qsent",
            )
        )
    give_sign(engine, make_worker("Qresting", queues=[]))
    with engine.begin() as connection:
        connection.execute(sa.update(processes).values(drain_asked_at=db_now()))
    put(engine, 3, state="queued")

    mine, all_ = fetch(engine, app="app"), fetch(engine)

    assert "Q" not in write_json(mine.as_json())
    assert ["leader", "sending", "queue"] == [e.kind for e in mine.verdict.alarms]
    for word in ("Qname", "Qerror", "Qhost", "Qreason", "Qsent", "Qresting"):
        assert word in write_json(all_.as_json())


def test_unknown_app_is_unknown(engine: sa.Engine):
    """
    It has no state.
    """
    with pytest.raises(NotFoundError):
        fetch(engine, app="never")
