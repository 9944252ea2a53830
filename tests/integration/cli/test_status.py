"""``status``."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.lease import Leader
from cli.connection import get_engine
from models.database.engine import db_now
from models.database.tables import operations
from operations.fleet.processes import ProcessRole
from tests.database import execute
from tests.integration.cli.calling import WEEKLY, Call, Configure, Post
from tests.presence import give_sign, make_worker
from tests.scheduling import MINUTE


@pytest.mark.usefixtures("shop")
def test_status_names_leader_backlog_and_next(call: Call):
    call("actions", "post", str(WEEKLY), "--app", "shop")
    call("actions", "run", "weekly update")

    answer = call("status", "--json")

    assert answer.data["leader"] is None
    assert {"pending": 1, "queued": 0, "running": 0} == answer.data["backlog"]["heavy"]
    assert ["weekly update"] == [each["name"] for each in answer.data["next_due"]]
    assert "nobody" in call("status").out


@pytest.mark.parametrize(
    ("broker", "scheduler", "worker"),
    [
        ("memory://", "minutehand up", "minutehand up"),
        ("redis://127.0.0.1:1/0", "minutehand scheduler", "minutehand worker"),
    ],
)
def test_what_is_to_be_started_fits_the_broker(
    call: Call,
    broker: str,
    scheduler: str,
    worker: str,
    post: Post,
    configure: Configure,
):
    """Within one process there is only one to start, which refuses no hint of ours."""
    configure(BROKER_URL=broker)
    post()

    run = call("actions", "run", "hello")
    status = call("status")
    workers = call("workers", "list")

    assert f"Start one: {scheduler}." in " ".join(run.err.split())
    assert f"Start one: {scheduler}." in " ".join(status.out.split())
    assert workers.err.endswith(f"Start one: {worker}\n")


def test_status_tells_what_waits_and_what_runs(call: Call, post: Post):
    """
    What waits for its next attempt is not late. The call of tick led first, and gave
    the lead away; a scheduler is a process as others, and takes nothing.
    """
    call("tick")
    engine = get_engine()
    assert Leader(engine).hold()
    give_sign(engine, make_worker("a", ["quick"]))
    of = {"role": ProcessRole.SCHEDULER, "name": "s", "concurrency": None}
    give_sign(engine, make_worker("b", (), **of))
    post()
    call("actions", "run", "hello")
    change = sa.update(operations)
    execute(engine, change.values(send_at=db_now(MINUTE), attempt=1))
    retried = call("status", "--json").data
    then = dict.fromkeys(("recorded_at", "send_at"), db_now(-3 * MINUTE))
    execute(engine, change.values(**then, attempt=0))

    status = call("status", "--json").data
    shown = call("status").out

    quick, heavy = status["queues"]["quick"], status["queues"]["heavy"]
    assert 1 == retried["backlog"]["quick"]["pending"]
    assert retried["queues"]["quick"]["oldest_s"] is None
    assert (1, 4) == (quick["workers"], quick["slots"])
    assert 180 <= quick["oldest_s"] < 240
    assert (0, None) == (heavy["workers"], heavy["oldest_s"])
    ((app, waits),) = [(e["app"], e["oldest_s"]) for e in status["backlog_by_app"]]
    assert ("shop", quick["oldest_s"]) == (app, waits)
    assert "celery@a" in shown
    assert "3 min" in shown
    processes = {each["role"]: each["queues"] for each in status["processes"]}
    assert {"worker": ["quick"], "scheduler": None} == processes
    assert [(2, False), (1, True)] == [
        (each["fence"], each["released_at"] is not None)
        for each in status["leaderships"]
    ]
