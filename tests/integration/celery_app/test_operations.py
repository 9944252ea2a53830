"""Operations from the table through each form of Redis to their effects."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import redis
import sqlalchemy as sa
from kombu.utils.json import loads

import scheduler_server
from celery_app.app import make_app
from celery_app.routing import EXECUTE_SCHEDULED_ACTION_QUICK, find_broker_names
from celery_app.tasks import EnforcedIdTask, execute_scheduled_action_quick
from dispatch.manual_runs import run_now
from models.database.engine import read_clock, reading, writing
from models.database.tables import (
    app_documents,
    domain_versions,
    domains,
    small_apps,
    templates,
)
from models.operation_state import OperationState, Queue
from operations.foreign_tasks import make_task_id
from operations.list_operations import fetch_steps
from operations.state import get_operation_state
from overview.doctor.checks.database import look_at_broker
from overview.doctor.finding import View
from settings import read_settings
from tests.chaos.servers import run_redis
from tests.scheduling import SELDOM, add_app, get, post
from tests.servers import ROOT, make_folder, run_warm, wait_until

QUICK = find_broker_names(Queue.QUICK, "minutehand")[0]
SCHEDULER = (sys.executable, "scheduler_server.py")
WORKER = (
    *(sys.executable, "-m", "celery", "-A", "celery_app", "worker"),
    *("--queues", "quick,heavy,celery", "--concurrency", "2"),
)
DOCS = ROOT / "docs" / "broker.md"


def make_environ(database_url: str, broker_url: str, folder: Path) -> dict[str, str]:
    values = {
        "HOME": str(folder),
        "DATABASE_URL": database_url,
        "BROKER_URL": broker_url,
        # A busy machine keeps a process for seconds between two statements, or between
        # a question and the answer.
        "BROKER_TIMEOUT": "PT30S",
        "DATABASE_TIMEOUT": "PT30S",
        "LOG_FORMAT": "json",
        "MAINTENANCE_ENABLED": "false",
    }
    return {f"MINUTEHAND_{name}": value for name, value in values.items()}


def wait_until_final(engine: sa.Engine, *ids: UUID) -> list[sa.Row[tuple[object, ...]]]:
    def are_final() -> bool:
        live = {"pending", "queued", "running"}
        return all(get(engine, each).state not in live for each in ids)

    wait_until(are_final, every_s=0.1, what="operations to end")
    return [get(engine, each) for each in ids]


def add_content(engine: sa.Engine, folder: Path) -> None:
    """Add an app with a domain, a document and a template."""
    add_app(engine, ids=["ann"])
    (folder / "sales.csv").write_text("store,amount\nParis,3\nRome,4\n")
    with writing(engine) as connection:
        connection.execute(
            sa.insert(domains).values(
                app="app", name="sales", source={"file": "sales.csv"}
            )
        )
        connection.execute(sa.update(small_apps).values(source_folder=str(folder)))
        connection.execute(
            sa.insert(app_documents).values(
                app="app", part="design", staged={"color": "blue"}
            )
        )
        connection.execute(
            sa.insert(templates).values(
                app="app", name="hello", subject="Hello {{ user.id }}", text="Hi"
            )
        )


def test_operations_run_for_real_and_once(
    postgres_engine: sa.Engine,
    postgres_url: str,
    redis_url: str,
    other_redis_url: str,
    tmp_path: Path,
):
    """Quick and heavy ones do their steps; copies and strangers do nothing."""
    engine = postgres_engine
    environ = make_environ(postgres_url, redis_url, tmp_path)
    environ["MINUTEHAND_TASK_CONNECTIONS"] = f"shop={other_redis_url}"
    add_content(engine, tmp_path)
    mail = post(
        engine,
        name="mail",
        when=SELDOM,
        operations={"send_email": {"template": "hello"}},
        recipients={"users": ["ann"]},
    ).uid
    steps_asked = {"publish": {"data": True, "design": True}, "refresh": True}
    data = post(engine, name="data", when=SELDOM, operations=steps_asked).uid
    task = {"name": "their.task", "args": [1], "queue": "theirs"}
    task["connection"] = "shop"
    theirs = post(engine, name="theirs", operations={"run_task": task}).uid
    broken = post(
        engine,
        name="broken",
        operations={"send_email": {"template": "none"}},
        recipients={"users": ["ann"]},
    ).uid
    tasks = make_tasks(environ)
    ids = [run_now(engine, uid) for uid in (mail, data, theirs, broken)]

    for each in (ids[0], ids[0], uuid4()):  # copies by hand, and one nobody recorded
        tasks.delay(triggerrer="by hand", enforce_task_id=each)
    tasks.apply_async(enforce_task_id="no uuid")
    with (
        run_warm(SCHEDULER, log=tmp_path / "scheduler.log", environ=environ),
        run_warm(WORKER, log=tmp_path / "worker.log", environ=environ),
    ):
        rows = wait_until_final(engine, *ids)
        last = run_now(engine, mail)
        tasks.delay(enforce_task_id=ids[0])
        wait_until_final(engine, last)
        with redis.Redis.from_url(redis_url) as client:
            wait_until(lambda: client.llen(QUICK) == 0, what="an empty queue")

    succeeded = OperationState.SUCCEEDED
    assert [succeeded, succeeded, succeeded, OperationState.FAILED] == [
        row.state for row in rows
    ]
    assert [1, 1, 1, 1] == [row.attempt for row in rows]
    with reading(engine) as connection:
        assert succeeded is get_operation_state(connection, str(ids[0]))
        steps = fetch_steps(connection, [ids[1]])[ids[1]]
        versions = connection.execute(sa.select(domain_versions)).all()
        live = connection.execute(sa.select(domains.c.live_version)).scalar_one()
        design = connection.execute(sa.select(app_documents.c.live)).scalar_one()
    mails = sorted((tmp_path / "mails").iterdir())
    assert 2 == len(mails)  # one for each of two runs
    assert [("refresh", "succeeded"), ("publish", "succeeded")] == [
        (step.name, step.state) for step in steps
    ]
    assert [2] == [version.rows for version in versions]
    assert (versions[0].version, {"color": "blue"}) == (live, design)
    assert "'hello'" in str(rows[3].error)
    assert_sent(other_redis_url, make_task_id(ids[2]))


def make_tasks(environ: dict[str, str]) -> EnforcedIdTask:
    """Return the quick task as an application of its own would send it."""
    app = make_app(read_settings(environ, env_file=None))
    app.conf.task_routes = {EXECUTE_SCHEDULED_ACTION_QUICK: {"queue": "quick"}}
    # Celery gives each application of a process the tasks of all others.
    task: EnforcedIdTask = app.tasks[execute_scheduled_action_quick.name]
    return task


def assert_sent(redis_url: str, task_id: str) -> None:
    """Assert that the user's own task was handed to Celery under this id, once."""
    with redis.Redis.from_url(redis_url) as client:
        found = [loads(text) for text in client.lrange("theirs", 0, -1)]
    headers = [each["headers"] for each in found]
    assert [("their.task", task_id)] == [(h["task"], h["id"]) for h in headers]


def read_acl(database: int) -> list[str]:
    """Return the rules of the user that docs/broker.md tells operators to make."""
    pattern = r"^ACL SETUSER minutehand ((?:\\\n|.)+)$"
    found = re.search(pattern, DOCS.read_text(), re.MULTILINE)
    assert found is not None
    rules = found[1].replace("\\\n", " ").replace("&/0.", f"&/{database}.")
    return rules.split()


@pytest.fixture
def narrow_url() -> Iterator[str]:
    """Give the socket of a Redis where we may do what the docs ask for, and no more."""
    with make_folder("socket") as folder:
        path = folder / "redis.sock"
        with run_redis("--unixsocket", path) as url, redis.Redis.from_url(url) as admin:
            admin.execute_command("ACL", "SETUSER", "minutehand", *read_acl(2))
            yield f"redis+socket://minutehand:PASSWORD@{path}?virtual_host=2"
            denied = admin.execute_command("ACL", "LOG")
            assert 0 == admin.dbsize()

    assert [] == denied


def test_operation_runs_over_a_socket_with_few_rights(
    postgres_engine: sa.Engine, postgres_url: str, tmp_path: Path, narrow_url: str
):
    """From the scheduler to a worker, which ends in good order; nothing is denied."""
    add_app(postgres_engine)
    uid = post(postgres_engine, operations={"maintenance": True}).uid
    environ = make_environ(postgres_url, narrow_url, tmp_path)
    settings = read_settings(environ, env_file=None)
    with (
        run_warm(SCHEDULER, log=tmp_path / "scheduler.log", environ=environ),
        run_warm(WORKER, log=tmp_path / "worker.log", environ=environ),
    ):
        (row,) = wait_until_final(postgres_engine, run_now(postgres_engine, uid))
        with reading(postgres_engine) as connection:
            view = View(connection, settings, read_clock(connection))
            found = [each.detail for each in look_at_broker(view)]

    assert OperationState.SUCCEEDED == row.state
    assert ["it answers and has all queues"] == found


def test_scheduler_without_a_broker_is_refused(
    sqlite_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """In memory nothing it sends could ever run; what to write instead is told."""
    for name, value in make_environ(sqlite_url, "memory://", tmp_path).items():
        monkeypatch.setenv(name, value)

    assert 2 == scheduler_server.main([])

    out, err = capsys.readouterr()
    assert out == ""
    assert "MINUTEHAND_BROKER_URL: memory://" in err
    assert "redis://host:6379/0" in err
