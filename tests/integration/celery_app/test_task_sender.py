"""Tasks of users' own, over the connection that is named, to workers of their own."""

from __future__ import annotations

import json
import os
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery.signals import before_task_publish

from actions.read_actions import TaskQueue
from celery_app.foreign_queues import Silence, describe_silence, look_at_task_queues
from celery_app.task_sender import CeleryTaskSender
from models.errors import PlatformError, StepError
from operations.foreign_tasks import ForeignTask, TaskAnswer
from tests.chaos.servers import run_redis
from tests.integration.celery_app.test_message_form import listening
from tests.project import run_project, wait_for_answers
from tests.scheduling import make_settings
from tests.servers import find_free_port, run_silent_server, wait_until
from tests.unit.operations.fakes import failing


def make_sender(
    broker_url: str, *, timeout: str = "PT30S", **connections: str
) -> CeleryTaskSender:
    named = ",".join(f"{name}={url}" for name, url in connections.items())
    return CeleryTaskSender(
        make_settings(
            BROKER_URL=broker_url, BROKER_TIMEOUT=timeout, TASK_CONNECTIONS=named
        )
    )


def make_task(**fields: Any) -> ForeignTask:
    """Return a task for queue reports, over connection shop."""
    place = {"queue": "reports", "connection": "shop"}
    return ForeignTask("shop.report", str(uuid4()), **{**place, **fields})


def send(sender: CeleryTaskSender, queue: str | None, connection: str | None) -> str:
    task_id = str(uuid4())
    task = ForeignTask(
        "shop.report",
        task_id,
        ["a", 1],
        {"b": None},
        queue=queue,
        connection=connection,
    )
    sender.send(task)
    return task_id


def test_nothing_but_the_task_comes_to_a_broker_of_others(
    redis_url: str, other_redis_url: str
):
    """Into a queue of theirs, or that of Celery itself; nothing of it is on ours."""
    sender = make_sender(redis_url, shop=other_redis_url)

    for queue in ("reports", "celery"):
        send(sender, queue, "shop")

    with (
        redis.Redis.from_url(other_redis_url) as theirs,
        redis.Redis.from_url(redis_url) as ours,
    ):
        assert ({b"reports", b"celery"}, []) == (set(theirs.keys()), ours.keys())


@pytest.mark.parametrize(
    ("queue", "connection", "said"),
    [
        (None, None, "'queue' is missing"),
        ("minutehand.quick", None, "Minutehand's own workers"),
        ("reports", "gone", "MINUTEHAND_TASK_CONNECTIONS"),
    ],
)
def test_what_the_settings_do_not_allow_any_more_fails_for_good(
    redis_url: str, queue: str | None, connection: str | None, said: str
):
    """It was posted when they were others, or by another way than the door."""
    with failing(said, permanent=True):
        send(make_sender(redis_url), queue, connection)


def test_connection_that_hangs_costs_its_deadline_and_no_other(
    redis_url: str, other_redis_url: str
):
    """It is temporary, names the connection, and others are served all the same."""
    with run_silent_server() as place:
        deaf = f"redis://{place}/0"
        sender = make_sender(redis_url, timeout="PT2S", deaf=deaf, shop=other_redis_url)
        started_at = time.monotonic()
        with failing("'deaf' did not accept", permanent=False):
            send(sender, "reports", "deaf")
        cost = time.monotonic() - started_at

        def is_served() -> bool:
            with suppress(StepError):  # a busy machine may let its deadline pass, too
                send(sender, "reports", "shop")
                return True
            return False

        wait_until(is_served, what="the other connection")

    assert cost < 40, "a multiple of its deadline of two seconds"


def test_connection_that_is_down_is_temporary_and_shows_no_password(redis_url: str):
    """It may be up when the operation is tried again; no attempt is counted."""
    sender = make_sender(
        redis_url, down=f"redis://:hunter2@127.0.0.1:{find_free_port()}/0"
    )

    with pytest.raises(PlatformError, match="connection 'down'") as caught:
        send(sender, "reports", "down")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "setting"),
    [(None, "MINUTEHAND_BROKER_URL"), ("shop", "MINUTEHAND_TASK_CONNECTIONS")],
)
def test_broker_that_is_down_is_told_with_the_setting_that_names_it(
    name: str | None, setting: str
):
    """Ours is not among the connections."""
    down = f"redis://127.0.0.1:{find_free_port()}/0"
    settings = make_settings(BROKER_URL=down, TASK_CONNECTIONS=f"shop={down}")

    (found,) = look_at_task_queues([TaskQueue(name, "reports", 1, "report")], settings)

    assert not found.is_reachable
    assert found.detail.endswith(f"Start the broker, or correct {setting}.")


def test_connection_that_was_cut_is_opened_again(redis_url: str, other_redis_url: str):
    """A broker that hung up on an idle connection costs nothing."""
    sender = make_sender(redis_url, shop=other_redis_url)
    send(sender, "reports", "shop")
    with redis.Redis.from_url(other_redis_url) as client:
        client.client_kill_filter(_type="normal", skipme=True)
        send(sender, "reports", "shop")

        assert 2 == client.llen("reports")


def test_worker_whose_answers_are_not_read_is_named(redis_url: str, tmp_path: Path):
    """Such as one of a project with pickle; what others say is not hidden by it."""
    settings = make_settings(BROKER_URL=redis_url)

    def say(queue: str, task: str = "shop.report") -> str:
        return str(describe_silence(settings, None, queue, task, ()).why)

    odd: dict[str, object] = {
        "task_serializer": "pickle",
        "accept_content": ["json", "pickle"],
    }
    # In this order: a worker that begins beside the odd one asks it, and ends by the
    # answer, which it may not read either.
    with run_project(tmp_path, redis_url, "reports"):
        wait_until(lambda: "None" == say("reports"), what="the other worker")
        with run_project(tmp_path, redis_url, "mails", name="odd", settings=odd):
            unread = "What odd@tests answers is not read: it is not JSON"
            doubt = "nobody can tell whether a worker takes queue mails (our broker)"
            wait_until(
                lambda: f"{doubt}. {unread}" == say("mails"), what="the odd worker"
            )
            wait_until(
                lambda: (
                    "no worker that takes queue reports"
                    in (said := say("reports", "no"))
                    and unread in said
                ),
                what="both in one sentence",
            )
            wait_until(lambda: "None" == say("reports"), what="the other worker")
        # It does not tell of Celery's own unless it is asked for them.
        assert "None" == say("reports", "celery.backend_cleanup")


def test_broker_that_lets_nobody_ask_is_none_that_is_away(redis_url: str):
    """What may only send tasks and read answers is told that, and what it was told."""
    with redis.Redis.from_url(redis_url) as client:
        may_send = "on", ">secret", "~*", "resetchannels", "+@all"
        client.execute_command("ACL", "SETUSER", "ours", *may_send)
    url = redis_url.replace("redis://", "redis://ours:secret@")
    settings = make_settings(BROKER_URL=url)
    asked = [TaskQueue(None, "reports", 1, "report", {"shop.report": "report"})]

    (found,) = look_at_task_queues(asked, settings)

    assert found.is_reachable
    assert "nobody can tell whether a worker takes it (our broker; 0" in found.detail
    assert "Workers cannot be asked: this user has no permissions" in found.detail
    silence = describe_silence(settings, None, "reports", "shop.report", ["x"])
    assert Silence(of={"x": None}) == silence


def test_task_that_does_not_answer_is_looked_for(redis_url: str, tmp_path: Path):
    """At the workers and in its queue; what Redis has lost is with neither."""
    settings = make_settings(BROKER_URL=redis_url)
    sender = CeleryTaskSender(settings)
    pipes = [tmp_path / name for name in ("first", "second", "third")]
    for pipe in pipes:
        os.mkfifo(pipe)
    tasks = [
        make_task(connection=None, args=[str(pipe)])._replace(name="shop.hold")
        for pipe in pipes
    ]
    ids = [each.id for each in tasks]

    def say(*expected: str) -> bool:
        told = describe_silence(settings, None, "reports", "shop.hold", ids).of
        return list(expected) == [str(told.get(each)).partition(":")[0] for each in ids]

    sender.send_all(None, tasks)
    with run_project(
        tmp_path,
        redis_url,
        "reports",
        settings={"worker_prefetch_multiplier": 1},
        pool="threads",
    ):
        begun = "shop@tests has begun it"
        held = "shop@tests holds it, behind others that it runs"
        in_queue = "queue reports (our broker)"
        waits = f"no worker has begun it, and 1 message waits in {in_queue}"
        lost = f"no worker that answers has begun it, and {in_queue} is empty"
        wait_until(lambda: say(begun, held, waits), what="all three")
        with redis.Redis.from_url(redis_url) as client:
            client.delete("reports")
        wait_until(lambda: say(begun, held, lost), what="the loss")
        for pipe in pipes[:2]:  # the third is lost
            pipe.open("w").close()


def test_options_of_a_project_are_taken_over(redis_url: str, tmp_path: Path):
    """Such as a prefix of all its keys, under which answers come back, too."""
    options = {"global_keyprefix": "shop:", "fanout_prefix": True}
    settings = make_settings(
        TASK_CONNECTIONS=f"shop={redis_url}",
        TASK_RULES=json.dumps({"shop": {"transport_options": options}}),
    )
    sender = CeleryTaskSender(settings, lambda: "installation")

    theirs: dict[str, object] = {"broker_transport_options": options}
    with run_project(tmp_path, redis_url, "reports", settings=theirs):
        sender.send(make_task(token="a token"))
        kept = wait_for_answers(sender)
        wait_until(
            lambda: (
                not describe_silence(settings, "shop", "reports", "shop.report", ()).why
            ),
            what="the worker to be known",
        )

    assert [TaskAnswer("a token", succeeded=True)] == kept


def test_sentinels_lead_to_their_master(redis_url: str, tmp_path: Path):
    """
    Tasks go there, and their answers come from there. One of the two hangs, which costs
    its deadline, also where they have options of their own.
    """
    master = redis_url.rpartition("//")[2].partition("/")[0].replace(":", " ")
    config = tmp_path / "sentinel.conf"
    config.write_text(f"sentinel monitor main {master} 1\n")
    options = {"master_name": "main"}
    ours = {**options, "sentinel_kwargs": {"client_name": "shop"}}
    rules = json.dumps({"shop": {"transport_options": ours}})
    kept: list[TaskAnswer] = []
    with (
        run_redis("--sentinel", config=config) as sentinel,
        run_silent_server() as deaf,
    ):
        place = sentinel.replace("redis://", "sentinel://")
        url = f"sentinel://{deaf}/0;{place}"
        settings = make_settings(
            BROKER_TIMEOUT="PT1S", TASK_CONNECTIONS=f"shop={url}", TASK_RULES=rules
        )
        sender = CeleryTaskSender(settings, lambda: "installation")

        def has_come_back() -> bool:
            with suppress(PlatformError):  # a busy machine takes longer, now and then
                sender.send(task)
                sender.receive("shop", kept.extend, limit=10)
            return bool(kept)

        task = make_task(token="a token")
        theirs: dict[str, object] = {"broker_transport_options": options}
        with run_project(tmp_path, place, "reports", settings=theirs):
            wait_until(has_come_back, every_s=0.2, what="the answer")

    assert {TaskAnswer("a token", succeeded=True)} == set(kept)


def test_queue_that_is_full_takes_no_more(redis_url: str):
    """What fits is sent, others are told why they wait; another queue is free."""
    sender = CeleryTaskSender(make_settings(BROKER_URL=redis_url, TASK_QUEUE_MAX="3"))
    full = [make_task(connection=None) for _ in range(5)]
    free = make_task(connection=None, queue="mails")

    left = sender.send_all(None, [*full, free])

    assert {each.id for each in full[3:]} == left.held.keys()
    assert "queue reports (our broker) holds 3 messages" in left.held[full[3].id]
    with redis.Redis.from_url(redis_url) as client:
        assert [3, 1] == [client.llen("reports"), client.llen("mails")]
    with pytest.raises(PlatformError, match="MINUTEHAND_TASK_QUEUE_MAX"):
        sender.send(full[4])


@pytest.mark.parametrize("is_listened_to", [False, True])
def test_key_that_is_no_queue_doubles_nothing(redis_url: str, *, is_listened_to: bool):
    """Such as one of the project's own: what is sent beside it arrives, once."""
    sender = make_sender(redis_url)
    send(sender, "reports", None)
    queues = "reports", "figures", "mails", "figures"
    tasks = [make_task(connection=None, queue=queue) for queue in queues]
    # to one who listens, Celery makes each message, as it does with traces
    heard = listening(before_task_publish) if is_listened_to else nullcontext()
    with redis.Redis.from_url(redis_url) as client, heard:
        client.set("figures", "of the project")

        left = sender.send_all(None, tasks)

        assert [2, 1] == [client.llen("reports"), client.llen("mails")]
    assert {tasks[1].id, tasks[3].id} == set(left.refused)
    assert "our broker did not accept the task" in left.refused[tasks[1].id]


@pytest.mark.parametrize(
    ("task", "word"),
    [({"app": "crm"}, "'crm' may"), ({"args": ["a" * 70_000]}, "70,0")],
)
def test_what_the_rules_leave_out_is_not_sent(
    redis_url: str, task: dict[str, Any], word: str
):
    """An action may have been posted before, and a placeholder may stand for much."""
    sender = CeleryTaskSender(
        make_settings(
            TASK_CONNECTIONS=f"shop={redis_url}",
            TASK_RULES='{"shop": {"apps": ["shop"]}}',
        )
    )

    with failing(word, permanent=True):
        sender.send(make_task(**task))
