"""The database and the brokers, as doctor judges them."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa
from psycopg.errors import DiskFull

from actions.lease import Leader, record_tick
from celery_app.aside import UnreadableMessage, open_aside
from models.database.engine import db_now, make_engine, read_clock, reading, writing
from models.database.tables import leases, strangers
from operations.fleet.strangers import Stranger, StrangerReason, record_stranger
from overview.doctor.checks.database import look_at_locks
from overview.doctor.examine import find_trouble
from overview.doctor.finding import Finding, View
from tests.chaos.servers import run_redis
from tests.conftest import new_database
from tests.database import execute, write_by
from tests.integration.models.database.test_engine import demote
from tests.presence import SETTINGS
from tests.project import run_project
from tests.scheduling import HOUR, add_app, examine, get_now, make_settings, post
from tests.servers import wait_until

#: To whom nobody listens.
AWAY = "redis://:hunter2@127.0.0.1:1/0"


def test_schema_of_another_version_is_bad_and_ends_the_look(unmigrated_url: str):
    """What to run is said, and what the tables would tell is not asked for."""
    engine = make_engine(unmigrated_url)
    execute(engine, sa.text("create table other (id integer)"))

    (found,) = find_trouble(engine, SETTINGS)
    engine.dispose()

    assert ("schema", "bad") == (found.subject, found.health)
    assert "minutehand migrate" in found.detail


def test_read_only_database_is_named_as_that(postgres_engine: sa.Engine):
    """As after a fail-over to a replica: all can be read, and nothing written."""
    demote(postgres_engine)

    (found,) = examine(postgres_engine, "database")

    assert "bad" == found.health
    told = "the database is read-only: default_transaction_read_only"
    assert found.detail.startswith(told)


def test_session_that_began_read_only_is_asked_once(postgres_engine: sa.Engine):
    """It stays so when the switch is off again, and nobody writes who would drop it."""
    postgres_engine.dispose()
    with postgres_engine.connect() as connection:
        connection.exec_driver_sql("set default_transaction_read_only = on")
        connection.commit()

    found = [examine(postgres_engine, "database")[0].health for _ in range(2)]

    assert ["bad", "ok"] == found


def test_full_disk_of_the_database_is_named_as_that(postgres_engine: sa.Engine):
    """
    Rows that fit are still written, such as heartbeats, but no tick: only where none
    comes is it tried.
    """
    engine = postgres_engine
    assert Leader(engine).hold()
    write_by(engine, record_tick, get_now(engine))

    @sa.event.listens_for(engine, "before_cursor_execute")
    def _fill(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        if "temporary" in text:
            why = (
                'could not extend file "base/5/1": No space left on device\nHINT: more'
            )
            raise sa.exc.OperationalError(text, {}, DiskFull(why))

    (before,) = examine(engine, "database")
    late = {"last_tick_at": db_now(-HOUR), "acquired_at": db_now(-HOUR)}
    execute(engine, sa.update(leases).values(late))
    (found,) = examine(engine, "database")

    assert ("ok", "bad") == (before.health, found.health)
    told = 'the disk of the database is full: could not extend file "b'
    assert found.detail.startswith(told)
    assert "Free some space there" in found.detail


def test_file_that_another_program_locks_is_named_as_that(sqlite_url: str):
    """
    Such as a shell in a transaction: the scheduler that waits for it is not dead. Who
    looks does not wait as long as who has something to write.
    """
    holder = make_engine(sqlite_url)
    engine = make_engine(sqlite_url, timeout=HOUR)

    with writing(holder):
        (found,) = examine(engine, "database")
    engine.dispose()
    holder.dispose()

    assert "bad" == found.health
    assert "database is locked. Another program" in found.detail


def look_at_locks_later(engine: sa.Engine, seconds: int = 11) -> list[Finding]:
    """Return what the look finds when what is locked has been so for a while."""
    with reading(engine) as connection:
        later = read_clock(connection) + timedelta(seconds=seconds)
        return list(look_at_locks(View(connection, make_settings(), later, None)))


LOCK_TWO = "lock scheduled_actions in row share mode; lock events in row share mode"


def test_whoever_keeps_rows_locked_is_named(
    postgres_engine: sa.Engine, postgres_server_url: str, postgres_template: str
):
    """
    With how to end that, while it lasts, and if it lasts; nobody is told who has locked
    rows of a copy of the database, whose tables have the same numbers.
    """
    with (
        new_database(postgres_server_url, postgres_template) as url,
        sa.create_engine(url, poolclass=sa.NullPool).connect() as elsewhere,
        postgres_engine.connect() as shell,
    ):
        elsewhere.exec_driver_sql(LOCK_TWO)
        shell.exec_driver_sql("set application_name = 'psql'")
        shell.exec_driver_sql(LOCK_TWO)
        (pid,) = shell.exec_driver_sql("select pg_backend_pid()").scalars()
        assert [] == look_at_locks_later(postgres_engine, 0)
        (found,) = look_at_locks_later(postgres_engine)
        shell.rollback()
        shell.invalidate()

    kept = (
        rf"^session {pid} \(\w+, psql\) keeps rows of events, scheduled_actions locked"
    )
    end = rf"since .* all else goes on.* end it: select pg_terminate_backend\({pid}\)$"
    assert re.search(f"{kept} {end}", found.detail)
    assert "bad" == found.health
    assert [] == look_at_locks_later(postgres_engine)


def test_prepared_transaction_that_keeps_rows_locked_is_named(
    postgres_engine: sa.Engine,
):
    """It has no session that could be ended."""
    with postgres_engine.connect() as shell:
        shell.exec_driver_sql(LOCK_TWO)
        shell.exec_driver_sql("prepare transaction 'it''s'")
    (found,) = look_at_locks_later(postgres_engine)
    at_once = postgres_engine.execution_options(isolation_level="AUTOCOMMIT")
    with at_once.connect() as shell:
        shell.exec_driver_sql("rollback prepared 'it''s'")

    assert re.match(r"prepared transaction 'it''s' \(\w+\) keeps rows", found.detail)
    assert found.detail.endswith("end it: rollback prepared 'it''s'")
    assert [] == look_at_locks_later(postgres_engine)


def test_lock_on_the_lease_is_told_as_that(postgres_engine: sa.Engine, reader_url: str):
    """Whoever may not know since when hears of it, too."""
    database = postgres_engine.url.database
    url = sa.make_url(reader_url).set(database=database)
    reader = make_engine(url.render_as_string(hide_password=False))
    assert Leader(postgres_engine).hold()

    with postgres_engine.connect() as shell:
        shell.exec_driver_sql("set application_name = 'psql'")
        shell.execute(sa.select(leases).with_for_update())
        (found,) = look_at_locks_later(reader, 0)
        shell.rollback()
        shell.invalidate()
    reader.dispose()

    assert "psql) keeps rows of leases locked. The scheduler stands" in found.detail


def test_broker_that_does_not_answer_is_bad(postgres_engine: sa.Engine):
    """What is recorded would wait there for ever."""
    (found,) = examine(postgres_engine, "broker", BROKER_URL=AWAY)

    assert "bad" == found.health
    assert "the call to the broker failed" in found.detail
    assert ".." not in found.detail
    assert "hunter2" not in found.detail


def test_redis_that_deletes_what_waits_is_to_be_looked_at(postgres_engine: sa.Engine):
    """
    A policy of a cache: what it deletes for lack of memory waits till it is sent again.
    One that deletes what expires alone lets ours be; and not every Redis tells.
    """
    found = []
    with run_redis() as url, redis.Redis.from_url(url) as admin:
        for policy in ("volatile-lru", "allkeys-lfu"):
            admin.config_set("maxmemory-policy", policy)
            found.append(examine(postgres_engine, "broker", BROKER_URL=url)[1:])
        admin.execute_command("acl", "setuser", "default", "-info")
        found.append(examine(postgres_engine, "broker", BROKER_URL=url)[1:])

    fine, (doubtful,), untold = found
    assert [] == fine == untold
    assert ("broker", "look") == (doubtful.subject, doubtful.health)
    assert "maxmemory-policy is allkeys-lfu" in doubtful.detail
    assert "noeviction" in doubtful.detail


def test_what_lies_aside_is_counted(postgres_engine: sa.Engine, redis_url: str):
    """It names the commands; nothing is late or lost, so it is only to be looked at."""
    at = get_now(postgres_engine)
    entry = UnreadableMessage(at, "minutehand.quick", "it is not JSON", 1, "{")
    with open_aside(make_settings(BROKER_URL=redis_url)) as aside:
        aside.put(entry, timeout_s=30)

    broker, found = examine(postgres_engine, "broker", BROKER_URL=redis_url)

    assert ("broker", "ok") == (broker.subject, broker.health)
    assert ("aside", "look") == (found.subject, found.health)
    assert found.detail.startswith("1 from our queues could not be read")
    assert "minutehand queues aside --empty" in found.detail


def test_stranger_in_our_queues_is_bad_and_named(postgres_engine: sa.Engine):
    """With the other installation's id, until nobody meets it any more."""
    engine = postgres_engine
    other = Stranger("minutehand.quick", StrangerReason.OTHER_INSTALLATION, "0f3a")
    write_by(engine, record_stranger, other, worker="a@b")
    write_by(engine, record_stranger, other, worker="c@d")

    (found,) = examine(engine, "strangers")
    seen_at = get_now(engine) - timedelta(minutes=3)
    execute(engine, sa.update(strangers).values(seen_at=seen_at))

    assert ("queue minutehand.quick", "bad") == (found.subject, found.health)
    assert "Installation 0f3a sends to" in found.detail
    assert "MINUTEHAND_QUEUE_PREFIX" in found.detail
    assert [] == examine(engine, "strangers")


def post_task(engine: sa.Engine, name: str = "report") -> None:
    """Post an action that sends a task over the connection crm."""
    task = {"name": f"shop.{name}", "queue": "reports", "connection": "crm"}
    post(engine, name=name, operations={"run_task": task})


@pytest.mark.parametrize(
    ("apps", "rules", "found"),
    [
        (["shop"], "{}", []),
        (["shop", "blog"], "{}", ["connections"]),
        (["shop", "blog"], '{"crm": {"apps": ["shop"]}}', []),
    ],
    ids=["one app", "shared", "ruled"],
)
def test_connection_that_several_apps_share_is_told(
    engine: sa.Engine, apps: list[str], rules: str, found: list[str]
):
    """Until an operator has said whose it is."""
    for app in apps:
        add_app(engine, app)

    told = examine(engine, "tasks", TASK_CONNECTIONS=f"crm={AWAY}", TASK_RULES=rules)

    assert found == [each.subject for each in told]


def test_task_queue_that_nobody_takes_is_to_be_looked_at(
    postgres_engine: sa.Engine, other_redis_url: str, tmp_path: Path
):
    """
    Until a worker of that project does; what it must take is written down. A task that
    it does not know is told, too.
    """
    add_app(postgres_engine)
    post_task(postgres_engine)

    def ask(told: str) -> str:
        given = {"TASK_CONNECTIONS": f"crm={other_redis_url}"}
        (found,) = examine(postgres_engine, "tasks", **given)
        assert "task queue reports" == found.subject
        return found.detail if found.health == told else ""

    before = ask("look")
    with run_project(tmp_path, other_redis_url, "reports"):
        wait_until(lambda: ask("ok"), every_s=0.2, what="a worker that answers")
        post_task(postgres_engine, "missing")
        unknown = wait_until(lambda: ask("look"), every_s=0.2, what="it to answer")

    assert "connection 'crm'" in before
    assert "such as 'report'" in before
    assert "celery -A PROJECT worker -Q reports. (One whose accept_content" in before
    assert "knows the task shop.missing: import" in unknown
    assert unknown.endswith("such as the action 'missing'")


@pytest.mark.parametrize(
    ("connections", "subject", "health", "told"),
    [
        (f"crm={AWAY}", "connection 'crm'", "bad", "refused"),
        (f"other={AWAY}", "tasks", "look", "'crm' is not a connection"),
    ],
    ids=["does not answer", "gone"],
)
def test_connection_of_a_task_that_fails_is_told(
    postgres_engine: sa.Engine, connections: str, subject: str, health: str, told: str
):
    """Each task over it fails; its password is not told. Or the settings changed."""
    add_app(postgres_engine)
    post_task(postgres_engine)

    (found,) = examine(postgres_engine, "tasks", TASK_CONNECTIONS=connections)

    assert (subject, health) == (found.subject, found.health)
    assert told in found.detail
    assert "hunter2" not in found.detail
