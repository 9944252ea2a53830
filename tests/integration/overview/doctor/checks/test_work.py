"""Who works, what waits and what failed, as doctor judges it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from actions.lease import Leader, record_send_failure
from actions.pausing.queues import pause_queue
from models.operation_state import Queue, Reason
from overview.doctor.checks.work import fetch_unsent
from overview.doctor.finding import Finding
from overview.installation.status import fetch_status
from tests.database import read_by, write_by
from tests.presence import SETTINGS, give_sign, make_worker
from tests.scheduling import (
    HOUR,
    MINUTE,
    REFRESH,
    add_app,
    add_mails,
    edit_action,
    examine,
    get_now,
    post,
    put,
)

QUICK, HEAVY = "queue quick", "queue heavy"


def find_queues(engine: sa.Engine, **settings: str) -> dict[str, Finding]:
    return {each.subject: each for each in examine(engine, "queues", **settings)}


def add(engine: sa.Engine, *, ago: timedelta = 0 * MINUTE, **values: Any) -> None:
    """Record a quick operation, as if *ago*, and write *values* into its row."""
    at = get_now(engine) - ago
    put(engine, id=uuid4(), **{"recorded_at": at, "send_at": at, **values})


def test_queue_needs_a_worker_once_something_is_scheduled(engine: sa.Engine):
    """Before anything is due; a fresh installation is well, and so are others."""
    fresh = {each.health for each in examine(engine, "queues")}
    add_app(engine)
    post(engine, operations=REFRESH)

    found = find_queues(engine)

    assert {"ok"} == fresh
    assert ("ok", "bad") == (found[QUICK].health, found[HEAVY].health)
    assert "Start one: minutehand up. (" in found[HEAVY].detail


@pytest.mark.parametrize(
    ("queue", "age", "health"),
    [
        ("quick", MINUTE, "ok"),
        ("quick", 2 * MINUTE, "bad"),
        ("heavy", 0 * MINUTE, "bad"),
    ],
    ids=["lives", "killed", "of another queue"],
)
def test_queue_of_what_waits_needs_a_worker_that_lives(
    engine: sa.Engine, queue: str, age: timedelta, health: str
):
    """A killed one is missed within two minutes; queues are looked at one by one."""
    give_sign(engine, make_worker("a", [queue]), age=age)
    add(engine)

    found = find_queues(engine)

    assert (health, "ok") == (found[QUICK].health, found[HEAVY].health)
    # what waits to be sent is the leader's business
    assert "1 wait" in found[QUICK].detail


def test_queues_beside_a_project_say_what_for(engine: sa.Engine):
    """What a scheduler that is alone does not do, and what its operations wait for."""
    add(engine, queue="celery")
    add(engine, queue="tasks", ago=-MINUTE)

    found = find_queues(engine)

    assert (
        "nothing old is pruned, and no notice is sent" in found["queue celery"].detail
    )
    assert "1 wait for their next attempt, or for the" in found["queue tasks"].detail


@pytest.mark.parametrize(
    ("age", "health"), [(MINUTE, "ok"), (10 * MINUTE, "look")], ids=str
)
def test_operation_that_no_worker_takes_is_to_be_looked_at(
    engine: sa.Engine, age: timedelta, health: str
):
    """What was sent minutes ago and not claimed asks what the workers do."""
    give_sign(engine, make_worker())
    add(engine, state="queued", sent_at=get_now(engine) - age)

    assert health == find_queues(engine)[QUICK].health


def test_instants_are_told_in_the_zone_of_the_installation_and_in_utc(
    postgres_engine: sa.Engine,
):
    """Without a zone of its own it is UTC, which is told once."""
    write_by(postgres_engine, pause_queue, Queue.QUICK)

    before = find_queues(postgres_engine)[QUICK].detail
    after = find_queues(postgres_engine, TIMEZONE="Europe/Paris")[QUICK].detail

    day, clock = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d"
    assert re.search(f"paused since {day} {clock}Z: nothing", before)
    both = rf"{day} {clock} \+0[12]:00 \(({day} )?{clock}Z\)"
    assert re.search(f"paused since {both}: nothing", after)


def test_quarantined_action_is_to_be_looked_at(engine: sa.Engine):
    add_app(engine)
    post(engine, uid="hello", name="Hello")
    values = {"quarantined_at": get_now(engine), "quarantine_reason": "no such zone"}
    edit_action(engine, "hello", **values)

    (found,) = examine(engine, "quarantine")

    assert "look" == found.health
    assert found.detail.startswith("Hello (uid hello, app app): no such zone. ")


def test_only_what_could_have_been_sent_is_late(engine: sa.Engine):
    """What waits for another operation, or for less than that long, is no trouble."""
    now = get_now(engine)
    put(engine, 1, queue=Queue.HEAVY, state="queued")
    put(engine, 2, queue=Queue.HEAVY, send_at=now - 2 * MINUTE)
    quick = put(engine, 3, send_at=now - 2 * MINUTE)

    late = read_by(engine, fetch_unsent, now=now)
    later = read_by(engine, fetch_unsent, now=now - 2 * MINUTE)

    assert [quick] == [each.id for each in late]
    assert [] == later


def test_what_is_not_sent_is_bad(postgres_engine: sa.Engine):
    """Due to be sent minutes ago, and nothing is in its way."""
    add(postgres_engine)
    before = examine(postgres_engine, "outbox")
    add(postgres_engine, ago=2 * MINUTE)

    (found,) = examine(postgres_engine, "outbox")
    assert Leader(postgres_engine).hold()
    write_by(postgres_engine, record_send_failure, "NOAUTH Authentication required")

    assert ([], "bad") == (before, found.health)
    assert found.detail.startswith("1 operation waits to be sent")
    # The broker's own words say why: one fault is one alarm.
    assert [] == examine(postgres_engine, "outbox")


def test_troubles_of_the_last_hour_are_told_by_app_and_reason(engine: sa.Engine):
    """
    The most first; older ones are history. None of it makes doctor fail: a template
    of one app is its own affair.
    """
    mail = "step failed: send_email"
    now = get_now(engine)
    for app, state, reason, ago in (
        ("blog", "missed", "outage", MINUTE),
        ("shop", "failed", mail, MINUTE),
        ("shop", "failed", mail, MINUTE),
        ("blog", "failed", "time limit", 2 * HOUR),
    ):
        add(engine, app=app, state=state, reason=reason, finished_at=now - ago)

    found = examine(engine, "troubles")

    assert ["look", "look"] == [each.health for each in found]
    assert found[0].detail.startswith("app shop: 2 failed (step failed: send_email)")
    assert found[1].detail.startswith("app blog: 1 missed (outage)")


def test_uncertain_mails_are_counted_however_old(engine: sa.Engine):
    """Until somebody has decided on them."""
    made = put(engine)
    for recipient, age in (("ada", MINUTE), ("bob", 24 * HOUR)):
        at = get_now(engine) - age
        add_mails(engine, made, {recipient: "uncertain"}, at=at)

    (found,) = examine(engine, "uncertain")
    (recent,) = examine(engine, "troubles")
    status = read_by(engine, fetch_status, SETTINGS)

    assert (2, 1) == (status.uncertain_mails, len(status.last_hour))
    assert "2 mails are uncertain" in found.detail
    assert "1 mail uncertain" in recent.detail


def test_what_waits_for_the_platform_is_told_with_its_cause(engine: sa.Engine):
    """It fails nowhere, costs no attempt, and would be found by nobody."""
    reason = f"{Reason.PLATFORM}: the workspace /w is full"
    later = get_now(engine) + MINUTE
    add(engine, ago=MINUTE, reason=reason, error="it is full", send_at=later)

    (found,) = examine(engine, "held")

    assert ("platform", "bad") == (found.subject, found.health)
    assert "it is full; 1 operation waits for it, of 1 app" in found.detail
