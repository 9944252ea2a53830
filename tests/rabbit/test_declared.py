"""What we declare on a vhost that others use too, and what we leave alone."""

from __future__ import annotations

import amqp
import pytest

from celery_app.routing import find_broker_names
from models.operation_state import WORKER_QUEUES
from tests.chaos.installation import Installation
from tests.chaos.servers import Victim
from tests.neighbours.meeting import record_many
from tests.rabbit.server import connect, list_declared, purge

_OURS = {
    name for queue in WORKER_QUEUES for name in find_broker_names(queue, "minutehand")
}


@pytest.fixture(autouse=True)
def _empty_vhost(rabbit: Victim) -> None:
    """Begin without a queue or an exchange."""
    purge(rabbit)


def test_nothing_but_what_is_needed_is_declared(
    installation: Installation, rabbit: Victim
) -> None:
    """
    Three queues, their exchanges, and those of remote control: all with our prefix.

    The classic queue of somebody with our word is left alone: a worker that declared it
    as its own would be refused again and again.
    """
    with connect(rabbit) as connection:
        channel = connection.channel()
        channel.queue_declare("celery", durable=True, auto_delete=False)
        channel.basic_publish(amqp.Message("theirs"), routing_key="celery")
        with installation.scheduler(), installation.worker() as worker:
            [ran] = record_many(installation, 1)
            row = installation.wait_until_final(ran)
            queues, exchanges = list_declared(rabbit)

            assert worker.poll() is None
        waiting = channel.queue_declare("celery", passive=True)

    control = {"minutehand.pidbox", "minutehand.events", "reply.minutehand.pidbox"}
    assert _OURS | {"worker@tests.minutehand.pidbox", "celery"} == queues
    assert exchanges - _OURS <= control
    assert row.state == "succeeded"
    assert (1, 0) == (waiting.message_count, waiting.consumer_count)
    assert "PRECONDITION" not in installation.read_log("worker")
