"""The forms of Redis that there are: what works runs, what does not is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa

from dispatch.manual_runs import run_now
from models.operation_state import OperationState
from settings import read_settings
from tests.integration.celery_app.test_operations import (
    SCHEDULER,
    WORKER,
    make_environ,
    wait_until_final,
)
from tests.scheduling import add_app, post
from tests.servers import ROOT, make_folder, run_redis, run_warm

DOCS = ROOT / "docs" / "broker.md"
MINUTEHAND = (sys.executable, "-m", "cli.main")


def read_acl() -> list[str]:
    """Return the rules of the user that docs/broker.md tells operators to make."""
    pattern = r"^ACL SETUSER minutehand ((?:\\\n|.)+)$"
    found = re.search(pattern, DOCS.read_text(), re.MULTILINE)
    assert found is not None
    names = found[1]
    # Those of the docs are for the prefix that is the default.
    if not getattr(read_settings({}, env_file=None), "queue_prefix", ""):
        names = names.replace("minutehand.pidbox", "celery.pidbox")
        names = names.replace("minutehand.", "")
    rules = names.replace("\\\n", " ").split()
    every_key = "~*" in rules  # after which Redis takes no other pattern
    return [r for r in rules if not (every_key and r[0] == "~" and r != "~*")]


@pytest.fixture
def socket_url() -> Iterator[str]:
    """Give a Redis that listens on a socket of the file system."""
    with make_folder("socket") as folder:
        path = folder / "redis.sock"
        with run_redis("--unixsocket", path):
            yield f"redis+socket://{path}?virtual_host=2"


@pytest.fixture
def narrow_url() -> Iterator[str]:
    """Give a Redis on which we are a user that may do what the docs ask for."""
    with run_redis() as server, redis.Redis.from_url(server.url) as admin:
        admin.execute_command("ACL", "SETUSER", "minutehand", *read_acl())
        yield server.url.replace("redis://", "redis://minutehand:PASSWORD@")
        denied = admin.execute_command("ACL", "LOG")

    assert [] == denied


@pytest.mark.parametrize("kind", ["socket_url", "narrow_url"])
def test_operation_runs_over(
    request: pytest.FixtureRequest,
    postgres_engine: sa.Engine,
    postgres_url: str,
    tmp_path: Path,
    kind: str,
):
    """From the scheduler to a worker, which ends in good order; nothing is denied."""
    url: str = request.getfixturevalue(kind)
    add_app(postgres_engine)
    uid = post(postgres_engine, operations={"maintenance": True}).uid
    environ = make_environ(postgres_url, url, tmp_path)
    with (
        run_warm(SCHEDULER, log=tmp_path / "scheduler.log", environ=environ),
        run_warm(WORKER, log=tmp_path / "worker.log", environ=environ),
    ):
        (row,) = wait_until_final(postgres_engine, run_now(postgres_engine, uid))
        asked = subprocess.run(
            [*MINUTEHAND, "doctor", "--json"],
            cwd=ROOT,
            env={**environ, "PATH": ""},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    assert OperationState.SUCCEEDED == row.state
    assert '"it answers and has all queues"' in asked.stdout


@pytest.mark.parametrize("command", ["worker", "scheduler"])
def test_node_of_a_cluster_is_refused_by_name(
    sqlite_url: str, tmp_path: Path, command: str
):
    """Its URL looks like any other; what to write instead is told at the start."""
    with run_redis("--cluster-enabled", "yes") as server:
        environ = make_environ(sqlite_url, server.url, tmp_path)
        # One that does not answer in time is not refused: it may be away.
        environ |= {
            "MINUTEHAND_BROKER_TIMEOUT": "PT30S",
            "MINUTEHAND_LEASE_TTL": "PT60S",
        }
        done = subprocess.run(
            [*MINUTEHAND, command],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    assert (2, "") == (done.returncode, done.stdout)
    assert (
        "MINUTEHAND_BROKER_URL: this Redis is a node of a Redis Cluster" in done.stderr
    )


def test_scheduler_without_a_broker_is_refused(sqlite_url: str, tmp_path: Path):
    """In memory nothing it sends could ever run; what to write instead is told."""
    done = subprocess.run(
        SCHEDULER,
        cwd=ROOT,
        env=make_environ(sqlite_url, "memory://", tmp_path),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert (2, "") == (done.returncode, done.stdout)
    assert "MINUTEHAND_BROKER_URL: memory://" in done.stderr
    assert "redis://host:6379/0" in done.stderr
