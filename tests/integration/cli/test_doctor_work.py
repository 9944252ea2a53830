"""Who works, what waits and what failed: what doctor and status know of work."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from actions.lease import Leader
from cli.connection import get_engine, get_settings
from models.database.engine import db_now, make_engine, writing
from models.database.tables import breakers, leases, operations
from models.operation_state import Reason
from operations.adapters.breaker import Breaker
from operations.fleet.processes import Process, ProcessRole
from overview.doctor.checks import hosts
from overview.doctor.thresholds import LITTLE_SPACE, NO_SPACE
from tests.database import execute
from tests.integration.cli.calling import Answer, Call, write_action
from tests.presence import give_sign, make_worker
from tests.scheduling import add_mails, get_now, make_operation, record_all

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _leader(call: Call) -> None:
    """Let somebody lead and have ticked, so that the rest is judged alone."""
    call("tick")
    assert Leader(get_engine()).hold()


def sign(process: Process, **options: timedelta) -> None:
    """Let *process* have given a sign in the database of this call."""
    give_sign(get_engine(), process, **options)


def find(answer: Answer, subject: str) -> tuple[str, str]:
    """Return the health of *subject*, and what is said of it."""
    ((health, detail),) = (
        (each["health"], each["detail"])
        for each in answer.data
        if each["subject"] == subject
    )
    return str(health), str(detail)


def list_details(answer: Answer, subject: str) -> list[str]:
    """Return what is said of *subject*, line by line, unless all is well."""
    return [
        each["detail"]
        for each in answer.data
        if each["subject"] == subject and each["health"] != "ok"
    ]


def run_action(call: Call, shop: Path, *, age: timedelta = timedelta(0)) -> None:
    """Record a quick operation as if *age* ago."""
    assert 0 == call("actions", "post", write_action(shop), "--app", "shop").code
    assert 0 == call("actions", "run", "hello").code
    execute(
        get_engine(),
        sa.update(operations).values(recorded_at=db_now(-age), send_at=db_now(-age)),
    )


def test_queue_that_nobody_uses_needs_no_worker(call: Call):
    """A fresh installation is well, whatever workers it has."""
    answer = call("doctor", "--json")

    assert 0 == answer.code
    assert {"ok"} == {find(answer, f"queue {name}")[0] for name in ("quick", "heavy")}


def test_queue_on_which_something_is_scheduled_needs_a_worker(call: Call, shop: Path):
    """Before anything is due; the queue without actions needs none."""
    call("actions", "post", write_action(shop), "--app", "shop")

    answer = call("doctor", "--json")

    assert 1 == answer.code
    health, detail = find(answer, "queue quick")
    assert "bad" == health
    assert "Start one: minutehand up. (" in detail
    assert "ok" == find(answer, "queue heavy")[0]


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
    call: Call, shop: Path, queue: str, age: timedelta, health: str
):
    """A killed one is missed within two minutes; queues are looked at one by one."""
    sign(make_worker("a", [queue]), age=age)
    run_action(call, shop)

    answer = call("doctor", "--json")

    assert health == find(answer, "queue quick")[0]
    # what waits to be sent is the leader's business
    assert "1 wait" in find(answer, "queue quick")[1]
    assert "ok" == find(answer, "queue heavy")[0]


def test_killed_worker_is_named_until_another_has_its_place(call: Call):
    """By name, so that one that was restarted is no news."""
    sign(make_worker("a"), age=3 * MINUTE)
    before = call("doctor", "--json")
    sign(make_worker("a"))
    after = call("doctor", "--json")

    ((_health, detail),) = [find(before, "worker")]
    assert "celery@a" in detail
    assert "cannot reach the database or its broker" in detail
    assert [] == list_details(after, "worker")


def test_clock_of_each_host_is_looked_at(call: Call):
    sign(make_worker("right"))
    sign(make_worker("wrong"), clock_ahead=timedelta(seconds=90))

    (detail,) = list_details(call("doctor", "--json"), "clock")

    found = re.match(r"host wrong differs from the database by \+(\S+) s", detail)
    assert found is not None, detail
    # At least: what passes between two looks at clocks is not counted.
    assert 2 < float(found[1]) <= 90


def test_settings_that_differ_are_told_with_who_has_which(call: Call):
    """Workers on two brokers: what one is sent, the other never sees."""
    first = make_worker("a")
    second = make_worker("b")
    settings = {**second.settings, "MINUTEHAND_BROKER_URL": "redis://other:6379/0"}
    sign(first)
    sign(replace(second, settings=settings))

    (detail,) = list_details(call("doctor", "--json"), "settings")

    assert detail.startswith("MINUTEHAND_BROKER_URL differs: ")
    assert "redis://other:6379/0 (celery@b)" in detail


def test_worker_of_another_schema_is_named(call: Call):
    """One that was forgotten in an upgrade."""
    sign(replace(make_worker("a"), revision="0000"))

    (detail,) = list_details(call("doctor", "--json"), "version")

    assert "celery@a" in detail
    assert "0000" in detail


def test_program_as_new_as_the_database_is_right(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    """The others are behind, also where the one that looks is among them."""
    sign(replace(make_worker("new"), revision="9999"))
    sign(make_worker("old"))
    monkeypatch.setattr(hosts, "fetch_revision", lambda _connection: "9999")

    (detail,) = list_details(call("doctor", "--json"), "version")

    assert "celery@old" in detail
    assert "the database is at 9999. Restart it with the newer version." in detail


@pytest.mark.parametrize(
    ("free", "health"),
    [(LITTLE_SPACE, "ok"), (LITTLE_SPACE - 1, "look"), (NO_SPACE - 1, "bad")],
)
def test_least_space_of_any_worker_is_told(call: Call, free: int, health: str):
    sign(make_worker("roomy"))
    sign(replace(make_worker("full"), free_bytes=free))

    found, detail = find(call("doctor", "--json"), "space")

    assert (health, True) == (found, "(full)" in detail)


def test_dead_leader_is_told_with_what_comes(call: Call):
    execute(
        get_engine(),
        sa.update(leases).values(
            heartbeat_at=db_now(-timedelta(seconds=25)),
            expires_at=db_now(timedelta(seconds=35)),
        ),
    )
    alone = find(call("doctor", "--json"), "leader")
    standby = replace(make_worker("b"), role=ProcessRole.SCHEDULER, name="scheduler@b")
    sign(standby)
    health, detail = find(call("doctor", "--json"), "leader")

    assert "bad" == alone[0]
    assert "it is dead, frozen or cut off. There is no standby." in alone[1]
    assert "look" == health
    assert re.search(r"scheduler@b takes over in 3\d s\.$", detail)


def fail(app: str, reason: str, age: timedelta, state: str = "failed") -> None:
    """Record an operation of *app* that ended *age* ago."""
    operation = make_operation(id=uuid4(), app=app)
    record_all(get_engine(), operation)
    execute(
        get_engine(),
        sa.update(operations)
        .where(operations.c.id == operation.id)
        .values(state=state, reason=reason, finished_at=db_now(-age)),
    )


def test_troubles_of_the_last_hour_are_told_by_app_and_reason(call: Call):
    """
    The most first; older ones are history. None of it makes doctor fail: a template
    of one app is its own affair.
    """
    for _ in range(2):
        fail("shop", "step failed: send_email", MINUTE)
    fail("blog", "outage", MINUTE, "missed")
    fail("blog", "time limit", 2 * HOUR)
    sign(make_worker())

    answer = call("doctor", "--json")
    told = list_details(answer, "last hour")
    counted = [
        (each["app"], each["state"], each["reason"], each["count"])
        for each in call("status", "--json").data["last_hour"]
    ]

    assert 0 == answer.code
    assert 2 == len(told)
    assert told[0].startswith("app shop: 2 failed (step failed: send_email)")
    assert [
        ("shop", "failed", "step failed: send_email", 2),
        ("blog", "missed", "outage", 1),
    ] == counted


def test_uncertain_mails_are_counted_however_old(call: Call):
    """Until somebody has decided on them."""
    operation = make_operation(app="shop")
    record_all(get_engine(), operation)
    now = get_now(get_engine())
    for recipient, age in (("ada", MINUTE), ("bob", 24 * HOUR)):
        mails = {recipient: "uncertain"}
        add_mails(get_engine(), operation.id, mails, at=now - age)

    answer = call("doctor", "--json")
    status = call("status", "--json").data

    assert "2 mails are uncertain" in find(answer, "mails")[1]
    assert 1 == sum(each["count"] for each in status["last_hour"])
    assert 2 == status["uncertain_mails"]


def test_status_tells_how_long_the_oldest_waits(call: Call, shop: Path):
    run_action(call, shop, age=3 * MINUTE)
    sign(make_worker("a", ["quick"]))

    status = call("status", "--json").data
    shown = call("status").out

    quick, heavy = status["queues"]["quick"], status["queues"]["heavy"]
    assert (1, 4) == (quick["workers"], quick["slots"])
    assert 180 <= quick["oldest_s"] < 240
    assert (0, None) == (heavy["workers"], heavy["oldest_s"])
    ((app, waits),) = [(e["app"], e["oldest_s"]) for e in status["backlog_by_app"]]
    assert ("shop", quick["oldest_s"]) == (app, waits)
    assert "celery@a" in shown
    assert "3 min" in shown


def test_operation_that_waits_for_its_next_attempt_is_not_late(call: Call, shop: Path):
    run_action(call, shop)
    execute(
        get_engine(), sa.update(operations).values(send_at=db_now(MINUTE), attempt=1)
    )

    status = call("status", "--json").data

    assert 1 == status["backlog"]["quick"]["pending"]
    assert status["queues"]["quick"]["oldest_s"] is None


def test_status_tells_who_led_and_what_runs(call: Call):
    """
    The call of tick led first, and gave the lead away. A scheduler is a process as
    others, and takes nothing.
    """
    scheduler = replace(make_worker(), role=ProcessRole.SCHEDULER)
    sign(replace(scheduler, queues=(), concurrency=None))

    status = call("status", "--json").data

    (process,) = status["processes"]
    assert ("scheduler", None) == (process["role"], process["queues"])
    assert [(2, False), (1, True)] == [
        (each["fence"], each["released_at"] is not None)
        for each in status["leaderships"]
    ]


def test_what_waits_for_the_platform_is_told_with_its_cause(call: Call, shop: Path):
    """It fails nowhere, costs no attempt, and would be found by nobody."""
    run_action(call, shop, age=MINUTE)
    reason = f"{Reason.PLATFORM}: the workspace /w is full"
    later = {"reason": reason, "error": "it is full", "send_at": db_now(MINUTE)}
    execute(get_engine(), sa.update(operations).values(later))

    answer = call("doctor", "--json")

    assert 1 == answer.code
    health, detail = find(answer, "platform")
    assert "bad" == health
    assert "it is full; 1 operation waits for it, of 1 app" in detail


@pytest.fixture
def restricted_url(call: Call, postgres_url: str) -> str:
    """Give a database as a role that owns nothing of it."""
    del call
    engine = make_engine(postgres_url)
    role = f"tenant_{uuid4().hex[:8]}"
    with writing(engine) as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
            f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}",
            f"REVOKE UPDATE ON operations FROM {role}",
            f"REVOKE ALL ON deliveries FROM {role}",
        ):
            connection.exec_driver_sql(statement)
    engine.dispose()
    url = sa.make_url(postgres_url).set(username=role, password="x")
    return url.render_as_string(hide_password=False)


def test_small_apps_that_share_a_role_are_told(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    """Whether they share a connection or two of the same role; files have no role."""
    url = "postgresql://{0}:x@{1}/sales"
    connections = {
        "one": {"url": url.format("a", "db"), "apps": ["shop", "other"]},
        "every": {"url": url.format("b", "db"), "apps": ["*"]},
        "first": {"url": url.format("c", "db"), "apps": ["shop"]},
        "second": {"url": url.format("c", "db:5432"), "apps": ["other"]},
        "elsewhere": {"url": url.format("c", "db2"), "apps": ["other"]},
        "file": {"url": "sqlite:////tmp/s.db", "apps": ["*"]},
    }
    monkeypatch.setenv("MINUTEHAND_SQL_CONNECTIONS", json.dumps(connections))
    get_settings.cache_clear()

    told = list_details(call("doctor", "--json"), "sources")

    roles = re.findall(r"as one role \((.*?)\)", "\n".join(told))
    assert ["every", "first, second", "one"] == roles
    assert all("MINUTEHAND_SQL_CONNECTIONS" in each for each in told)


def test_look_that_is_refused_is_a_finding(
    embedded: Call, restricted_url: str, monkeypatch: pytest.MonkeyPatch
):
    """What may not be read is told, and all else is looked at still."""
    get_engine().dispose()
    get_engine.cache_clear()
    monkeypatch.setenv("MINUTEHAND_DATABASE_URL", restricted_url)
    get_settings.cache_clear()

    answer = embedded("doctor", "--json")

    assert 1 == answer.code
    assert any(
        "GRANT UPDATE ON operations" in d for d in list_details(answer, "grants")
    )
    (refused,) = list_details(answer, "troubles")
    assert "permission denied" in refused
    assert "ok" == find(answer, "tzdata")[0]


def test_mail_server_that_does_not_serve_is_named(call: Call):
    """While it is tried again; one that nobody needs any more is only mentioned."""
    breaker = Breaker(get_engine(), "mail server mail.example.org:25")
    breaker.fail("it hangs", tried=False)

    health, detail = find(call("doctor", "--json"), "mail")
    execute(get_engine(), sa.update(breakers).values(retry_at=db_now(-HOUR)))
    later, _detail = find(call("doctor", "--json"), "mail")

    assert ("bad", "look") == (health, later)
    assert detail.startswith(
        "the mail server mail.example.org:25 has been unavailable since"
    )
    assert detail.endswith("goes on when it serves again.")


def test_instants_are_told_in_the_zone_of_the_installation_and_in_utc(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    """Without a zone of its own it is UTC, which is told once."""
    call("queues", "pause", "quick")
    (before,) = list_details(call("doctor", "--json"), "queue quick")
    monkeypatch.setenv("MINUTEHAND_TIMEZONE", "Europe/Paris")
    get_settings.cache_clear()
    (after,) = list_details(call("doctor", "--json"), "queue quick")

    day, clock = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d"
    assert re.search(f"paused since {day} {clock}Z by", before)
    both = rf"{day} {clock} \+0[12]:00 \(({day} )?{clock}Z\)"
    assert re.search(f"paused since {both} by", after)
