"""Tasks of users' own over RabbitMQ: into queues as their owners made them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import amqp
import pytest

from actions.read_actions import TaskQueue
from celery_app.foreign_queues import describe_silence, look_at_task_queues
from celery_app.routing import find_answer_queue
from celery_app.task_answers import SUCCEEDED, TOKEN
from celery_app.task_sender import CeleryTaskSender
from models.errors import StepError, UnreachableError
from operations.foreign_tasks import ForeignTask, TaskAnswer
from settings import Settings
from tests.chaos.servers import Victim
from tests.project import run_project
from tests.rabbit.server import connect
from tests.scheduling import make_settings
from tests.servers import find_free_port, wait_until
from tests.unit.operations.fakes import failing

QUEUE = "shop.reports"


@pytest.fixture
def channel(rabbit: Victim) -> Iterator[amqp.Channel]:
    """Give a channel of the queue's owner, who has not made it yet."""
    with connect(rabbit) as connection:
        made = connection.channel()
        made.queue_delete(QUEUE)
        yield made
        made.queue_delete(QUEUE)


def connect_to(url: str) -> Settings:
    """Return settings with a connection to *url*; our own broker is another."""
    return make_settings(BROKER_TIMEOUT="PT30S", TASK_CONNECTIONS=f"shop={url}")


def send(sender: CeleryTaskSender) -> str:
    task_id = str(uuid4())
    sender.send(
        ForeignTask("shop.report", task_id, [1], queue=QUEUE, connection="shop")
    )
    return task_id


def test_queue_that_is_missing_is_told(rabbit: Victim, channel: amqp.Channel):
    """It does not vanish, and is not made; sent again once it is there, it arrives."""
    sender = CeleryTaskSender(connect_to(rabbit.url))
    for _ in range(2):
        with failing("has no queue 'shop", permanent=False):
            send(sender)
    with pytest.raises(amqp.NotFound):
        channel.connection.channel().queue_declare(QUEUE, passive=True)

    channel.queue_declare(QUEUE, durable=True, auto_delete=False)
    task_id = send(sender)

    message = channel.basic_get(QUEUE, no_ack=True)
    assert task_id == message.headers["id"]
    assert [[1], {}] == json.loads(message.body)[:2]


def test_queue_stays_as_its_owner_made_it(rabbit: Victim, channel: amqp.Channel):
    """Of whatever kind it is."""
    arguments = {"x-queue-type": "quorum"}
    channel.queue_declare(QUEUE, durable=True, auto_delete=False, arguments=arguments)

    task_id = send(CeleryTaskSender(connect_to(rabbit.url)))

    message = channel.basic_get(QUEUE, no_ack=True)
    assert task_id == message.headers["id"]


def test_other_node_is_tried(rabbit: Victim, channel: amqp.Channel):
    """Of the nodes of a cluster the first may be down."""
    channel.queue_declare(QUEUE, durable=True, auto_delete=False)
    down = f"amqp://guest:guest@127.0.0.1:{find_free_port()}//"

    send(CeleryTaskSender(connect_to(f"{down};{rabbit.url}")))

    assert channel.basic_get(QUEUE, no_ack=True) is not None


def make_answer() -> amqp.Message:
    headers = {"task": SUCCEEDED, TOKEN: str(uuid4())}
    return amqp.Message(
        "[[7], {}, {}]", content_type="application/json", application_headers=headers
    )


class Answering(NamedTuple):
    """Two senders whose queue of answers does not exist, and a channel of others."""

    sender: CeleryTaskSender
    second: CeleryTaskSender
    channel: amqp.Channel
    installation: str

    @property
    def queue(self) -> str:
        """Where answers come."""
        return find_answer_queue("minutehand", self.installation)


@pytest.fixture
def answering(rabbit: Victim, channel: amqp.Channel) -> Iterator[Answering]:
    """Give an installation of its own: as long as one reads, nobody else may."""
    installation = str(uuid4())
    first, second = (
        CeleryTaskSender(connect_to(rabbit.url), lambda: installation) for _ in range(2)
    )
    made = Answering(first, second, channel, installation)
    yield made
    for link in (*first._links.values(), *second._links.values()):
        link._close()  # now: what a reader holds nobody else may delete
    channel.queue_delete(made.queue)


def test_reader_makes_its_queue(answering: Answering):
    """
    After a reset of the broker, tasks under way have where to send their answers.

    It ends some time after the last of its readers.
    """
    sender, _, channel, _ = answering
    kept: list[TaskAnswer] = []

    def has(count: int) -> bool:
        sender.receive("shop", kept.extend, limit=10)
        return len(kept) == count

    for count in (3, 6):
        assert 0 == sender.receive("shop", kept.extend, limit=10)
        for _ in range(3):
            channel.basic_publish(make_answer(), routing_key=answering.queue)
        wait_until(partial(has, count), what="the answers")
        channel.queue_delete(answering.queue)

    assert 0 == sender.receive("shop", kept.extend, limit=10)
    with pytest.raises(amqp.PreconditionFailed, match="x-expires"):
        channel.connection.channel().queue_declare(
            answering.queue, durable=True, auto_delete=False
        )


def test_queue_of_answers_that_exists_is_read_as_it_is(answering: Answering):
    """Whoever made it, and however; and a message that is not kept comes again."""
    sender, _, channel, _ = answering
    channel.queue_declare(
        *(answering.queue, False, True, False, False),
        arguments={"x-queue-type": "quorum"},
    )
    for _ in range(3):
        # Such a queue may lose what it did not confirm.
        channel.basic_publish_confirm(make_answer(), routing_key=answering.queue)
    kept: list[TaskAnswer] = []

    def refuse(_answers: Sequence[TaskAnswer]) -> None:
        raise UnreachableError("no database")

    def has_met() -> bool:
        try:
            return bool(sender.receive("shop", refuse, limit=10))
        except UnreachableError:
            return True

    def has_all() -> bool:
        sender.receive("shop", kept.extend, limit=10)
        return len(kept) >= 3

    wait_until(has_met, what="an answer")
    wait_until(has_all, what="all answers")

    assert 3 == len(kept)


def test_answers_that_are_left_come_again(answering: Answering):
    """To the same reader after the others, and to the next if it dies."""
    first, second, channel, _ = answering
    channel.queue_declare(answering.queue, durable=True, auto_delete=False)
    for _ in range(5):
        channel.basic_publish(make_answer(), routing_key=answering.queue)
    met: list[str] = []

    def keep(answers: Sequence[TaskAnswer]) -> list[str]:
        assert len(answers) <= 2
        met.extend(each.token for each in answers)
        return met[:3]

    def read_until(count: int) -> None:
        def has_met() -> bool:
            first.receive("shop", keep, limit=2)
            return len(met) >= count

        wait_until(has_met, what="the answers")

    read_until(8)
    first._links["shop"]._close()
    kept: list[TaskAnswer] = []

    def has_all() -> bool:
        second.receive("shop", kept.extend, limit=10)
        return len(kept) == 3

    wait_until(has_all, what="what was left")

    assert 5 == len(set(met[:5]))
    assert met[:3] == met[5:8]
    assert set(met[:3]) == {each.token for each in kept}


def test_what_another_reader_holds_is_not_taken_for_nothing(answering: Answering):
    """Who reads it later has what the first did not keep, once that is gone."""
    first, second, channel, _ = answering
    channel.queue_declare(answering.queue, durable=True, auto_delete=False)
    channel.basic_publish(make_answer(), routing_key=answering.queue)
    seen: list[int | None] = []
    kept: list[TaskAnswer] = []

    def look(_answers: Sequence[TaskAnswer]) -> None:
        seen.append(second.receive("shop", kept.extend, limit=10))
        raise UnreachableError("no database")

    def has_met() -> bool:
        with suppress(UnreachableError):
            first.receive("shop", look, limit=10)
        return bool(seen)

    def has_all() -> bool:
        second.receive("shop", kept.extend, limit=10)
        return len(kept) == 1

    wait_until(has_met, what="the answer")
    wait_until(has_all, what="the answer again")

    assert [None] == seen


def test_exchange_that_leads_nowhere_is_told(rabbit: Victim, channel: amqp.Channel):
    """RabbitMQ returns the message; the step is tried again."""
    sender = CeleryTaskSender(connect_to(rabbit.url))
    task = ForeignTask(
        "shop.report", str(uuid4()), connection="shop", exchange="shop", routing_key="x"
    )
    channel.exchange_delete("shop")
    with pytest.raises(StepError, match="with key 'x' does not exist") as missing:
        sender.send(task)
    channel.exchange_declare("shop", "topic", durable=True, auto_delete=False)

    with pytest.raises(StepError, match="with key 'x' leads to no queue") as unbound:
        sender.send(task)

    channel.exchange_delete("shop")
    assert not missing.value.permanent
    assert not unbound.value.permanent


def test_exchange_of_which_no_worker_knows_the_task_is_told(
    rabbit: Victim, channel: amqp.Channel, tmp_path: Path
):
    """The broker tells no queues; the workers say what they know."""
    settings = connect_to(rabbit.url)
    channel.queue_declare(QUEUE, durable=True, auto_delete=False)

    def find_remark(task: str = "shop.report") -> str:
        return str(describe_silence(settings, "shop", None, task, ()).why)

    assert "no worker answers" in find_remark()
    with run_project(tmp_path, rabbit.url, QUEUE):
        wait_until(lambda: find_remark() == "None", what="the worker")
        # Whoever is slow to answer knows nothing yet.
        told = "knows the task shop.nothing"
        wait_until(lambda: told in find_remark("shop.nothing"), what="the remark")


def test_doctor_counts_who_takes_it(rabbit: Victim, channel: amqp.Channel):
    """No such queue, a queue without a worker, and one with a worker."""
    settings = connect_to(rabbit.url)
    asked = [TaskQueue("shop", QUEUE, 2, "weekly")]

    (missing,) = look_at_task_queues(asked, settings)
    channel.queue_declare(QUEUE, durable=True, auto_delete=False)
    (idle,) = look_at_task_queues(asked, settings)
    consumer = channel.basic_consume(QUEUE)
    (well,) = look_at_task_queues(asked, settings)
    channel.basic_cancel(consumer)

    assert [False, False, True] == [each.is_well for each in (missing, idle, well)]
    assert "it does not exist" in missing.detail
    assert "0 wait" in idle.detail
    assert "1 consumer" in well.detail
