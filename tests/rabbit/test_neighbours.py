"""Other Celery projects on our vhost: neither side takes the other's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import amqp
import pytest

from celery_app.routing import find_broker_names
from models.operation_state import Queue
from tests.chaos.installation import Installation
from tests.chaos.servers import Victim
from tests.neighbours.meeting import (
    check_remote_control,
    check_that_none_is_lost,
    record_many,
)
from tests.neighbours.project import make_projects
from tests.neighbours.strangers import (
    check_that_strangers_stay,
    check_that_two_installations_do_not_mix,
)
from tests.rabbit.server import connect, list_exchanges, list_queues, purge

_OURS = {name for queue in Queue for name in find_broker_names(queue, "minutehand")}


@pytest.fixture(autouse=True)
def _empty_vhost(rabbit: Victim) -> Iterator[None]:
    """Begin and end without a queue or an exchange."""
    purge(rabbit)
    yield
    purge(rabbit)


def test_no_task_is_lost_on_either_side(installation: Installation) -> None:
    """
    Two projects, one of them with a default queue called like ours, and 1,000 each.
    """
    projects = make_projects(installation.broker_url, installation.folder)

    check_that_none_is_lost(installation, projects)


def test_remote_control_stays_at_home(installation: Installation) -> None:
    """
    A neighbour that tells all workers to stop stops its own.
    """
    projects = make_projects(installation.broker_url, installation.folder)

    check_remote_control(installation, projects)


def test_what_is_not_ours_stays_in_the_queue(installation: Installation) -> None:
    """
    Unknown tasks, what cannot be read, and other installations' messages go back.
    """
    check_that_strangers_stay(installation)


def test_two_installations_with_the_same_names_do_not_mix(
    installation: Installation, sqlite_url: str, tmp_path: Path
) -> None:
    """
    Each does its own operations, whoever gets the messages first.
    """
    folder = tmp_path / "second"
    folder.mkdir()
    second = Installation(sqlite_url, installation.broker_url, folder)

    check_that_two_installations_do_not_mix(installation, second)
    second.engine.dispose()


def test_nothing_but_what_is_needed_is_declared(
    installation: Installation, rabbit: Victim
) -> None:
    """
    Three queues, their exchanges, and those of remote control: all with our prefix.
    """
    with installation.scheduler(), installation.worker() as worker:
        [ran] = record_many(installation, 1)
        installation.wait_until_final(ran)
        queues, exchanges = list_queues(rabbit), list_exchanges(rabbit)

        assert worker.poll() is None
    control = {"minutehand.pidbox", "minutehand.events", "reply.minutehand.pidbox"}
    assert _OURS | {"worker@tests.minutehand.pidbox"} == queues
    assert exchanges - _OURS <= control


def test_classic_queue_of_somebody_with_our_word_is_left_alone(
    installation: Installation, rabbit: Victim
) -> None:
    """
    A worker that declared it as its own would be refused again and again.
    """
    with connect(rabbit) as connection:
        channel = connection.channel()
        channel.queue_declare("celery", durable=True, auto_delete=False)
        channel.basic_publish(amqp.Message("theirs"), routing_key="celery")
        with installation.scheduler(), installation.worker() as worker:
            [ran] = record_many(installation, 1)
            row = installation.wait_until_final(ran)

            assert worker.poll() is None
        waiting = channel.queue_declare("celery", passive=True)

    assert row.state == "succeeded"
    assert (1, 0) == (waiting.message_count, waiting.consumer_count)
    assert "PRECONDITION" not in installation.read_log("worker")
