"""What will cause trouble is seen, each thing by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import start_http_server
from psycopg.errors import DiskFull

from actions.lease import Leader, record_tick
from cli.connection import get_engine, get_settings
from models.database.engine import (
    db_now,
    make_engine,
    read_clock,
    read_host_clock,
    writing,
)
from models.database.tables import (
    leases,
    operations,
    scheduled_actions,
    strangers,
    zones,
)
from operations.fleet.processes import Process
from operations.fleet.strangers import Stranger, StrangerReason, record_stranger
from overview.doctor.checks import hosts
from telemetry import IS_LEADER, LAST_TICK
from tests.database import execute
from tests.integration.cli.calling import Answer, Call, write_action
from tests.presence import give_sign, make_worker
from tests.project import run_project
from tests.servers import find_free_port, wait_until

MINUTE = timedelta(minutes=1)
HOUR = 60 * MINUTE


def test_provider_that_does_not_answer_is_seen(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a small app of its table that there is not."""
    monkeypatch.setenv("MINUTEHAND_OIDC_ISSUER", "http://127.0.0.1:1")
    monkeypatch.setenv("MINUTEHAND_OIDC_CLIENT_ID", "minutehand")
    monkeypatch.setenv(
        "MINUTEHAND_OIDC_GROUPS", '{"ops": {"*": "admin", "x": "viewer"}}'
    )
    told = [
        each["detail"]
        for each in call("doctor", "--json").data
        if each["subject"] == "sign-in"
    ]

    assert 2 == len(told)
    assert told[0].startswith("127.0.0.1:1, which signs people in, cannot be asked")
    assert "MINUTEHAND_OIDC_GROUPS names 'x', which is no small app" == told[1]


@pytest.fixture
def leader(call: Call) -> Leader:
    """Give a leader of this process, after a first tick."""
    call("tick")
    leader = Leader(get_engine())
    assert leader.hold()
    return leader


def sign(process: Process, **options: Any) -> None:
    """Let *process* have given a sign in the database of this call."""
    give_sign(get_engine(), process, **options)


def list_found(answer: Answer) -> dict[str, str]:
    return {each["subject"]: each["health"] for each in answer.data}


def find_detail(answer: Answer, subject: str) -> str:
    (detail,) = (e["detail"] for e in answer.data if e["subject"] == subject)
    return str(detail)


@pytest.mark.usefixtures("leader")
def test_all_is_well_with_a_leader_that_ticks(call: Call):
    answer = call("doctor", "--json")

    assert 0 == answer.code
    assert {"ok"} == set(list_found(answer).values())
    assert "heartbeat" in call("doctor").out


def test_without_a_scheduler_two_things_are_bad(call: Call):
    """Nobody leads, and there never was a tick; a leader that died is as none."""
    answer = call("doctor", "--json")

    assert 1 == answer.code
    bad = {name for name, health in list_found(answer).items() if health == "bad"}
    assert {"leader", "tick"} == bad
    assert Leader(get_engine()).hold()
    assert "ok" == list_found(call("doctor", "--json"))["leader"]
    execute(get_engine(), sa.update(leases).values(expires_at=db_now(-MINUTE)))
    assert "bad" == list_found(call("doctor", "--json"))["leader"]


@pytest.mark.parametrize(
    ("age", "health"), [(MINUTE, "ok"), (2 * MINUTE, "bad"), (-MINUTE, "bad")]
)
@pytest.mark.usefixtures("leader")
def test_leader_that_does_not_tick_is_bad(call: Call, age: timedelta, health: str):
    """
    A leader that renews its lease and ticks no more is found out, also if its last tick
    lies ahead: it ticks at once when the clock was set back.
    """
    execute(
        get_engine(),
        sa.update(leases).values(
            acquired_at=db_now(-5 * MINUTE), last_tick_at=db_now(-age)
        ),
    )

    answer = call("doctor", "--json")

    assert health == list_found(answer)["tick"]
    assert int(health == "bad") == answer.code


def test_schema_of_another_version_is_bad_and_ends_the_look(
    unmigrated_url: str, embedded: Call, monkeypatch: pytest.MonkeyPatch
):
    """What to run is said, and what the tables would tell is not asked for."""
    engine = make_engine(unmigrated_url)
    with writing(engine) as connection:
        connection.exec_driver_sql("create table other (id integer)")
    engine.dispose()
    monkeypatch.setenv("MINUTEHAND_DATABASE_URL", unmigrated_url)

    answer = embedded("doctor", "--json")

    assert (1, {"schema": "bad"}) == (answer.code, list_found(answer))
    assert "minutehand migrate" in find_detail(answer, "schema")


def test_read_only_database_is_named_as_that(
    embedded: Call, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    """As after a fail-over to a replica: all can be read, and nothing written."""
    monkeypatch.setenv("MINUTEHAND_DATABASE_URL", postgres_url)
    assert 0 == embedded("tick").code

    @sa.event.listens_for(get_engine(), "connect")
    def _demote(connection: Any, _record: object) -> None:
        connection.execute("set default_transaction_read_only = on")
        connection.commit()

    get_engine().dispose()
    answer = embedded("doctor", "--json")
    refused = embedded("apps", "pause", "--all")

    assert (1, "bad") == (answer.code, list_found(answer)["database"])
    told = find_detail(answer, "database")
    assert told.startswith("the database is read-only: default_transaction_read_only")
    assert 6 == refused.code
    assert "the database is read-only: " in refused.err


def test_full_disk_of_the_database_is_named_as_that(
    embedded: Call, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Rows that fit are still written, such as heartbeats, but no tick."""
    monkeypatch.setenv("MINUTEHAND_DATABASE_URL", postgres_url)
    assert 0 == embedded("tick").code
    asked_before = list_found(embedded("doctor", "--json"))["database"]
    late = {"last_tick_at": db_now(-HOUR), "acquired_at": db_now(-HOUR)}
    execute(get_engine(), sa.update(leases).values(late))

    @sa.event.listens_for(get_engine(), "before_cursor_execute")
    def _fill(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        if "temporary" in text:
            why = (
                'could not extend file "base/5/1": No space left on device\nHINT: more'
            )
            raise sa.exc.OperationalError(text, {}, DiskFull(why))

    answer = embedded("doctor", "--json")

    assert ("ok", "bad") == (asked_before, list_found(answer)["database"])
    told = find_detail(answer, "database")
    assert told.startswith('the disk of the database is full: could not extend file "b')
    assert "Free some space there" in told


@pytest.mark.usefixtures("leader")
def test_quarantined_action_is_to_be_looked_at(call: Call, shop: Path):
    call("actions", "post", write_action(shop), "--app", "shop")
    execute(
        get_engine(),
        sa.update(scheduled_actions)
        .where(scheduled_actions.c.uid == "hello")
        .values(quarantined_at=db_now(), quarantine_reason="no such zone"),
    )

    answer = call("doctor", "--json")

    assert (0, "look") == (answer.code, list_found(answer)["quarantine"])
    assert "hello (uid hello, app shop): no such zone" in find_detail(
        answer, "quarantine"
    )


@pytest.mark.parametrize(
    ("age", "health"), [(MINUTE, "ok"), (10 * MINUTE, "look")], ids=str
)
@pytest.mark.usefixtures("leader")
def test_operation_that_no_worker_takes_is_to_be_looked_at(
    call: Call, shop: Path, age: timedelta, health: str
):
    """What was sent minutes ago and not claimed asks what the workers do."""
    sign(make_worker("a"))
    call("actions", "post", write_action(shop), "--app", "shop")
    call("actions", "run", "hello")
    execute(
        get_engine(), sa.update(operations).values(state="queued", sent_at=db_now(-age))
    )

    answer = call("doctor", "--json")

    assert health == list_found(answer)["queue quick"]


def post_task(
    call: Call, shop: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    """Post an action that sends a task over a connection to *redis_url*."""
    monkeypatch.setenv("MINUTEHAND_TASK_CONNECTIONS", f"crm={redis_url}")
    get_settings.cache_clear()
    sign(make_worker())
    task = {"name": "shop.report", "queue": "reports", "connection": "crm"}
    text = write_action(shop, operations={"run_task": task}, recipients=None)
    assert 0 == call("actions", "post", text, "--app", "shop").code


@pytest.mark.usefixtures("leader")
def test_connection_that_several_apps_share_is_told(
    call: Call, shop: Path, monkeypatch: pytest.MonkeyPatch, other_redis_url: str
):
    """Until an operator has said whose it is."""
    post_task(call, shop, monkeypatch, other_redis_url)
    alone = list_found(call("doctor", "--json"))
    document = json.loads((shop / "app.json").read_text())
    (shop / "app.json").write_text(json.dumps({**document, "uid": "second"}))
    assert 0 == call("apps", "apply", str(shop)).code

    shared = list_found(call("doctor", "--json"))
    monkeypatch.setenv("MINUTEHAND_TASK_RULES", '{"crm": {"apps": ["shop"]}}')
    get_settings.cache_clear()
    ruled = list_found(call("doctor", "--json"))

    assert "look" == shared["connections"]
    assert not {"connections"} & (alone.keys() | ruled.keys())


@pytest.mark.usefixtures("leader")
def test_task_queue_that_nobody_takes_is_to_be_looked_at(
    call: Call,
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    other_redis_url: str,
    tmp_path: Path,
):
    """
    Until a worker of that project does; what it must take is written down. A task that
    it does not know is told, too.
    """
    post_task(call, shop, monkeypatch, other_redis_url)

    before = call("doctor", "--json")
    with run_project(tmp_path, other_redis_url, "reports"):
        wait_until(
            lambda: list_found(call("doctor", "--json"))["task queue reports"] == "ok",
            every_s=0.2,
            what="a worker that answers",
        )
        task = {"name": "shop.missing", "queue": "reports", "connection": "crm"}
        text = write_action(
            shop,
            name="typo of the report",
            uid="typo",
            operations={"run_task": task},
            recipients=None,
        )
        assert 0 == call("actions", "post", text, "--app", "shop").code

        def find_unknown() -> str:
            told = find_detail(call("doctor", "--json"), "task queue reports")
            return told if "shop.missing" in told else ""

        unknown = wait_until(find_unknown, every_s=0.2, what="the worker to answer")

    assert "knows the task shop.missing: import" in unknown
    assert unknown.endswith("such as the action 'typo of the report'")
    assert (0, "look") == (before.code, list_found(before)["task queue reports"])
    told = find_detail(before, "task queue reports")
    assert "connection 'crm'" in told
    assert "such as 'hello'" in told
    assert told.endswith("celery -A PROJECT worker -Q reports")


@pytest.mark.usefixtures("leader")
def test_connection_that_does_not_answer_is_bad(
    call: Call, shop: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each task over it fails; its password is not told."""
    post_task(call, shop, monkeypatch, "redis://:hunter2@127.0.0.1:1/0")

    answer = call("doctor", "--json")

    assert (1, "bad") == (answer.code, list_found(answer)["connection 'crm'"])
    assert "hunter2" not in answer.out


@pytest.mark.usefixtures("leader")
def test_task_over_a_connection_that_is_gone_is_to_be_looked_at(
    call: Call, shop: Path, monkeypatch: pytest.MonkeyPatch
):
    """The settings have changed since it was posted."""
    post_task(call, shop, monkeypatch, "redis://127.0.0.1:1/0")
    monkeypatch.delenv("MINUTEHAND_TASK_CONNECTIONS")
    get_settings.cache_clear()

    answer = call("doctor", "--json")

    assert (0, "look") == (answer.code, list_found(answer)["tasks"])
    assert "'crm' is not a connection" in find_detail(answer, "tasks")


def test_stranger_in_our_queues_is_bad_and_named(call: Call):
    """With the other installation's id, until nobody meets it any more."""
    other = Stranger("minutehand.quick", StrangerReason.OTHER_INSTALLATION, "0f3a")
    with writing(get_engine()) as connection:
        record_stranger(connection, other, worker="a@b")
        record_stranger(connection, other, worker="c@d")

    answer = call("doctor", "--json")

    assert 1 == answer.code
    assert "bad" == list_found(answer)["queue minutehand.quick"]
    told = find_detail(answer, "queue minutehand.quick")
    assert "Installation 0f3a sends to" in told
    assert "MINUTEHAND_QUEUE_PREFIX" in told
    with writing(get_engine()) as connection:
        before = read_clock(connection) - timedelta(minutes=6)
        connection.execute(sa.update(strangers).values(seen_at=before))
    assert "queue minutehand.quick" not in list_found(call("doctor", "--json"))


def make_older(zone: str, rules_of: str) -> None:
    """Make as if *zone* had the rules of another when its actions were posted."""
    data = sa.select(zones.c.data).where(zones.c.name == rules_of)
    execute(
        get_engine(),
        sa.update(zones)
        .where(zones.c.name == zone)
        .values(data=data.scalar_subquery()),
    )


def test_new_tz_database_is_told_with_what_it_moves(call: Call, shop: Path):
    """With --tzdata nothing else is looked at, so a missing leader is not bad."""
    call("actions", "post", write_action(shop), "--app", "shop")
    utc = {"cron_rule": "0 7 * * *", "timezone": "UTC"}
    other = write_action(shop, name="other", uid="other", when=utc)
    call("actions", "post", other, "--app", "shop")
    make_older("Europe/Paris", "UTC")

    answer = call("doctor", "--tzdata", "--json")

    assert 0 == answer.code
    assert {("tzdata", "look")} == {
        (each["subject"], each["health"]) for each in answer.data
    }
    assert all("'hello' (app shop): " in each["detail"] for each in answer.data)


@pytest.mark.usefixtures("leader")
def test_zone_that_is_gone_is_told_with_its_actions(call: Call, shop: Path):
    """An older tz database, or a name that was withdrawn."""
    when = {"cron_rule": "0 7 * * *", "timezone": "Asia/Tokyo"}
    call("actions", "post", write_action(shop, when=when), "--app", "shop")
    sign(make_worker())
    timing = sa.func.replace(scheduled_actions.c.timing, "Asia/Tokyo", "Asia/Edo")
    with writing(get_engine()) as connection:
        connection.execute(
            sa.update(zones).where(zones.c.name == "Asia/Tokyo").values(name="Asia/Edo")
        )
        connection.execute(
            sa.update(scheduled_actions)
            .where(scheduled_actions.c.uid == "hello")
            .values(timing=timing)
        )

    answer = call("doctor", "--json")

    assert (0, "look") == (answer.code, list_found(answer)["tzdata"])
    detail = find_detail(answer, "tzdata")
    said = "'hello' (app shop): 'Asia/Edo' is not a time zone of the tz database."
    assert detail.startswith(said)


@pytest.fixture
def _metrics(call: Call, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the metrics of this process, as the scheduler does, after a tick."""
    call("tick")
    server, thread = start_http_server(0, "127.0.0.1")
    monkeypatch.setenv("MINUTEHAND_METRICS_PORT", str(server.server_port))
    get_settings.cache_clear()
    yield
    server.shutdown()
    server.server_close()
    thread.join()
    IS_LEADER.set(0)
    LAST_TICK.set(0)


def set_last_tick(age: timedelta) -> None:
    with writing(get_engine()) as connection:
        record_tick(connection, read_clock(connection) - age)


@pytest.mark.usefixtures("_metrics")
@pytest.mark.parametrize(
    ("is_leader", "own_age", "age", "health"),
    [
        (1, MINUTE, MINUTE, "ok"),
        # It hangs; whoever has the lease by now ticks.
        (1, 4 * MINUTE, MINUTE, "bad"),
        # It led once, and has stood by since.
        (0, 60 * MINUTE, MINUTE, "ok"),
        (0, None, MINUTE, "ok"),
        (0, None, 4 * MINUTE, "bad"),
        (1, None, MINUTE, "bad"),
    ],
    ids=["leads", "hangs", "led", "standby", "nobody-ticks", "never-ticked"],
)
def test_health_of_a_scheduler_follows_its_ticks(
    call: Call, is_leader: int, own_age: timedelta | None, age: timedelta, health: str
):
    """A leader is judged by what it did itself, a standby by what anybody did."""
    IS_LEADER.set(is_leader)
    now = read_host_clock()
    LAST_TICK.set(0 if own_age is None else (now - own_age).timestamp())
    set_last_tick(age)

    answer = call("doctor", "--scheduler", "--json")

    assert {"scheduler": health} == list_found(answer)
    assert int(health == "bad") == answer.code


def test_scheduler_that_does_not_answer_is_bad(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MINUTEHAND_METRICS_PORT", str(find_free_port()))

    answer = call("doctor", "--scheduler", "--json")

    assert (1, {"scheduler": "bad"}) == (answer.code, list_found(answer))


def test_health_of_a_scheduler_needs_its_port(call: Call):
    answer = call("doctor", "--scheduler")

    assert 2 == answer.code
    assert "MINUTEHAND_METRICS_PORT" in answer.err


def test_host_that_confines_no_children_is_told(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    """With what would help; what is asked is the kernel, which has no fake."""
    monkeypatch.setattr(hosts, "find_version", lambda: -1)

    answer = call("doctor", "--json")

    assert "look" == list_found(answer)["confinement"]
    assert "a profile that allows landlock_*" in find_detail(answer, "confinement")
