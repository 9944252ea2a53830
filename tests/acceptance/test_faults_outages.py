"""A broker that goes and comes while hundreds of messages wait (real processes)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import redis

from celery_app.routing import find_broker_names
from models.operation_state import OperationState, Queue
from tests.chaos.installation import Installation
from tests.chaos.servers import Victim, run_faulty_redis
from tests.servers import wait_until

#: So many that a worker is always in the middle of taking one.
WAITING = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[Victim]:
    """Give a Redis of this module alone, which finds again what was in it."""
    with run_faulty_redis(persistent=True) as server:
        yield server


@pytest.fixture
def installation(
    postgres_url: str, broker: Victim, tmp_path: Path
) -> Iterator[Installation]:
    """Give an installation on that broker, whose worker soon gives it up."""
    made = Installation(postgres_url, broker.url, tmp_path)
    made.options["BROKER_TIMEOUT"] = "PT2S"
    yield made
    made.engine.dispose()


def count_waiting(installation: Installation) -> int:
    with redis.Redis.from_url(installation.broker_url) as client:
        length = client.llen(find_broker_names(Queue.QUICK, "minutehand")[0])
    assert isinstance(length, int)
    return length


def test_worker_outlives_a_broker_that_goes_under_a_full_queue(
    installation: Installation, broker: Victim
) -> None:
    """Again and again, in the middle of taking; then it takes what is left."""
    with installation.worker() as worker:
        for _ in range(2):
            left = count_waiting(installation)
            installation.send(*(uuid4() for _ in range(WAITING)))
            wait_until(
                lambda left=left: (  # type: ignore[misc]
                    count_waiting(installation) < left + WAITING
                ),
                what="a first message",
            )
            lost = installation.read_log("worker").count("onnection")
            broker.kill()
            wait_until(
                lambda lost=lost: (  # type: ignore[misc]
                    worker.poll() is not None
                    or installation.read_log("worker").count("onnection") > lost
                ),
                what="the worker to notice",
            )
            broker.start()
            assert worker.poll() is None, installation.read_log("worker")[-3000:]
        wait_until(
            lambda: worker.poll() is not None or count_waiting(installation) == 0,
            what="the rest to be taken",
        )
        with installation.scheduler():
            after = installation.run("sleep", 0)
            row = installation.wait_until_final(after)

        assert worker.poll() is None
    assert row.state == OperationState.SUCCEEDED


#: What Redis may be made to refuse, and how that ends.
REFUSALS = {
    "out of memory": ("config set maxmemory 1", "config set maxmemory 0"),
    "read-only replica": ("replicaof 127.0.0.1 1", "replicaof no one"),
    "another password": ("config set requirepass secret", "config set requirepass ''"),
    "too many clients": ("config set maxclients 1", "config set maxclients 1000"),
    "rights revoked": (
        "acl setuser default -brpop -lpush -sadd -subscribe -psubscribe",
        "acl setuser default +@all",
    ),
}


@pytest.fixture
def admin(broker: Victim) -> Iterator[redis.Redis]:
    """Give a client that is there before anything is refused, and ends all of it."""
    with redis.Redis.from_url(broker.url, single_connection_client=True) as client:
        client.execute_command("config", "set", "maxmemory-policy", "noeviction")
        try:
            yield client
        finally:
            for _, heal in REFUSALS.values():
                client.execute_command(*shlex.split(heal))


def refuse(admin: redis.Redis, hurt: str) -> None:
    """Let Redis refuse, and cut everybody off, so that they come anew."""
    admin.execute_command(*shlex.split(hurt))
    for kind in ("normal", "pubsub"):
        admin.client_kill_filter(_type=kind, skipme=True)


def count_troubles(installation: Installation, name: str) -> int:
    """Return how many lines *name* has written about what goes wrong."""
    lines = installation.read_log(name).splitlines()
    return sum('"error"' in line or "Connection to broker" in line for line in lines)


def test_broker_that_refuses_costs_no_process(
    installation: Installation, admin: redis.Redis
) -> None:
    """Whatever it says, all go on by themselves when it serves again."""
    rows = []
    with installation.scheduler() as scheduler, installation.worker() as worker:
        for hurt, heal in REFUSALS.values():
            before = count_troubles(installation, "worker")
            done = installation.run("sleep", 0)
            installation.wait_until_final(done)
            refuse(admin, hurt)
            waiting = installation.run("sleep", 0)
            wait_until(
                lambda before=before: (  # type: ignore[misc]
                    count_troubles(installation, "worker") > before
                ),
                what=f"the worker to find {hurt}",
            )
            admin.execute_command(*shlex.split(heal))
            rows.append(installation.wait_until_final(waiting))

        assert [scheduler.poll(), worker.poll()] == [None, None]
    assert {OperationState.SUCCEEDED} == {row.state for row in rows}


def test_worker_waits_for_a_broker_that_refuses_from_the_start(
    installation: Installation, admin: redis.Redis
) -> None:
    """It says which rights it lacks, and does not ask all the time."""
    hurt, heal = REFUSALS["rights revoked"]
    admin.acl_log_reset()
    refuse(admin, hurt)
    with installation.worker() as worker:
        wait_until(
            lambda: (
                '"broker_lost"' in installation.read_log("worker")
                and sum(each["count"] for each in admin.execute_command("ACL LOG")) > 2
            ),
            what="the worker to try thrice",
        )
        admin.execute_command(*shlex.split(heal))
        with installation.scheduler():
            row = installation.wait_until_final(installation.run("sleep", 0))

        assert worker.poll() is None
    assert row.state == OperationState.SUCCEEDED
    log = installation.read_log("worker")
    said = [line for line in log.splitlines() if '"broker_lost"' in line]
    assert all("no permissions" in line for line in said)
    assert "Frequent restarts" not in log
