"""Scheduler and worker over RabbitMQ: each operation runs once (real processes)."""

from __future__ import annotations

from uuid import UUID

import amqp
import sqlalchemy as sa

from celery_app.routing import find_broker_names
from models.operation_state import WORKER_QUEUES, OperationState, Queue
from tests.chaos.installation import Installation
from tests.chaos.servers import Victim
from tests.database import execute
from tests.rabbit.server import CONSUMER_TIMEOUT_S, connect, list_declared, purge
from tests.servers import wait_until

_OURS = {
    name for queue in WORKER_QUEUES for name in find_broker_names(queue, "minutehand")
}


def make_old(installation: Installation, operation_id: UUID) -> None:
    """Let the message of an operation have been sent two minutes ago."""
    execute(
        installation.engine,
        sa.text(
            "update operations set sent_at = sent_at - interval '2 minutes'"
            " where id = :id"
        ),
        {"id": operation_id},
    )


def test_operations_run_once_whatever_the_broker_does(
    installation: Installation, rabbit: Victim
) -> None:
    """
    It works, loses patience with a long one, restarts in the middle, and loses a queue
    with all that was in it. Nothing but what is needed is declared.
    """
    declare_theirs(rabbit)
    with installation.scheduler() as scheduler:
        with installation.worker(concurrency=1) as worker:
            first = installation.run("sleep", 0)
            rows = [installation.wait_until_final(first)]
            check_what_is_declared(rabbit)
            assert "PRECONDITION" not in installation.read_log("worker")
            long = installation.run("sleep", CONSUMER_TIMEOUT_S + 4)
            rows.append(installation.wait_until_final(long))
            assert rows[-1].attempt == 1

            gate = installation.folder / "gate"
            during = installation.run("wait_for", str(gate))
            installation.wait_for_effects(during)
            waiting = installation.run("sleep", 0)
            installation.wait_for_state(waiting, "queued")
            rabbit.kill()
            away = installation.run("sleep", 0)
            wait_until(
                lambda: '"send_failed"' in installation.read_log("scheduler"),
                what="the scheduler to notice",
            )
            rabbit.start()
            gate.touch()
            restarted = (during, waiting, away)
            rows += [installation.wait_until_final(each) for each in restarted]

            assert worker.poll() is None
            assert scheduler.poll() is None
        lost = installation.run("sleep", 0)
        installation.wait_for_state(lost, "queued")
        with connect(rabbit) as connection:
            quick, *_behind = find_broker_names(Queue.QUICK, "minutehand")
            assert connection.channel().queue_delete(quick) >= 1
        make_old(installation, lost)
        with installation.worker("second", concurrency=1):
            row = installation.wait_until_final(lost)

    assert {OperationState.SUCCEEDED} == {each.state for each in (*rows, row)}
    everything = (first, long, *restarted, lost)
    assert [1] * 6 == [installation.count_effects(each) for each in everything]
    assert row.sends == 2


def declare_theirs(rabbit: Victim) -> None:
    """Leave nothing there but the classic queue of somebody with our word."""
    purge(rabbit)
    with connect(rabbit) as connection:
        channel = connection.channel()
        channel.queue_declare("celery", durable=True, auto_delete=False)
        channel.basic_publish(amqp.Message("theirs"), routing_key="celery")


def check_what_is_declared(rabbit: Victim) -> None:
    """
    Three queues, their exchanges, and those of remote control: all with our prefix.

    What somebody has declared is left alone: a worker that declared it as its own would
    be refused again and again.
    """
    queues, exchanges = list_declared(rabbit)
    with connect(rabbit) as connection:
        theirs = connection.channel().queue_declare("celery", passive=True)

    control = {"minutehand.pidbox", "minutehand.events", "reply.minutehand.pidbox"}
    assert _OURS | {"worker@tests.minutehand.pidbox", "celery"} == queues
    assert exchanges - _OURS <= control
    assert (1, 0) == (theirs.message_count, theirs.consumer_count)
