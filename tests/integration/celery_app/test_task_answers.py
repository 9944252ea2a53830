"""Answers of a real worker, taken off Redis only when they are kept."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
import redis

from celery_app.routing import find_answer_queue
from celery_app.task_sender import CeleryTaskSender
from models.errors import StepError, UnreachableError
from operations.foreign_tasks import ForeignTask, TaskAnswer
from tests.project import run_project, wait_for_answers
from tests.scheduling import make_settings
from tests.servers import find_free_port, wait_until

INSTALLATION = str(uuid4())
QUEUE = find_answer_queue("minutehand", INSTALLATION)


def make_sender(url: str, **more: str) -> CeleryTaskSender:
    """Return a sender with a connection to *url*; our own broker is in memory."""
    given = {"BROKER_URL": "memory://", "BROKER_TIMEOUT": "PT30S"}
    given["TASK_CONNECTIONS"] = f"shop={url}"
    settings = make_settings(**{**given, **more})
    return CeleryTaskSender(settings, lambda: INSTALLATION)


def make_task(token: str, name: str = "shop.report") -> ForeignTask:
    return ForeignTask(
        name, str(uuid4()), [], connection="shop", queue="reports", token=token
    )


@pytest.mark.parametrize("settings", [{}, {"task_protocol": 1}])
def test_answers_of_a_plain_worker_come_back(
    redis_url: str, other_redis_url: str, tmp_path: Path, settings: dict[str, object]
):
    """
    Without a line of code there: success with a token, and failure too, which says why
    if the project stores its results. When the answer is there, so is the result.
    """
    where = f"{other_redis_url},shop={other_redis_url}"
    sender = make_sender(redis_url, TASK_RESULTS=where)
    good, bad = make_task("good"), make_task("bad", "shop.break")
    found: dict[str, TaskAnswer] = {}

    def keep(answers: Sequence[TaskAnswer]) -> None:
        found.update({answer.token: answer for answer in answers})

    def has_both() -> bool:
        sender.receive("shop", keep, limit=10)
        return {"good", "bad"} == set(found)

    settings = {**settings, "result_backend": other_redis_url}
    with run_project(tmp_path, redis_url, "reports", settings=settings):
        for each in (good, bad):
            sender.send(each)
        wait_until(has_both, what="both answers")

    assert TaskAnswer("good", succeeded=True) == found["good"]
    assert not found["bad"].succeeded
    assert "ValueError: no such shop, 7" == sender.fetch_failure("shop", bad.id)
    assert sender.fetch_failure("shop", str(uuid4())) is None
    assert "ValueError: no such shop, 7" == sender.fetch_failure(None, bad.id)
    assert make_sender(redis_url).fetch_failure("shop", bad.id) is None


def test_worker_that_runs_callbacks_itself_goes_on(redis_url: str, tmp_path: Path):
    """Nobody hears of a failure, but the next task runs, and the message is gone."""
    sender = make_sender(redis_url)

    settings: dict[str, object] = {"task_always_eager": True, "task_acks_late": True}
    with run_project(tmp_path, redis_url, "reports", settings=settings):
        sender.send(make_task("bad", "shop.break"))
        sender.send(make_task("good"))
        kept = wait_for_answers(sender)

    assert [TaskAnswer("good", succeeded=True)] == kept
    log = (tmp_path / "shop.log").read_text()
    assert 1 == log.count("raised unexpected")
    assert "Connection to broker lost" not in log


def test_results_that_cannot_be_read_are_told(redis_url: str):
    """Within the deadline of a broker."""
    away = f"redis://127.0.0.1:{find_free_port()}/0"
    sender = make_sender(redis_url, TASK_RESULTS=f"shop={away}")

    assert "of connection 'shop' cannot be read" in str(
        sender.fetch_failure("shop", "x")
    )


def test_what_is_not_kept_stays(redis_url: str):
    """A database that is away, or a process that dies, loses no answer."""
    sender = make_sender(redis_url)
    token = "a token"
    kept: list[TaskAnswer] = []

    def refuse(_answers: Sequence[TaskAnswer]) -> None:
        raise UnreachableError("no database")

    with redis.Redis.from_url(redis_url) as client:
        client.lpush(QUEUE, "not a message")
        client.lpush(QUEUE, make_message(token))
        with pytest.raises(UnreachableError):
            sender.receive("shop", refuse, limit=10)
        assert 2 == client.llen(QUEUE)

        assert 2 == sender.receive("shop", kept.extend, limit=10)
        assert 0 == client.llen(QUEUE)

    assert [token] == [each.token for each in kept]
    assert 0 == sender.receive("shop", kept.extend, limit=10)


def test_what_is_left_comes_again_after_the_others(redis_url: str):
    """However many are left: each is given once, until all that was there has been."""
    sender = make_sender(redis_url)
    left = {"1", "2", "4"}
    rounds: list[list[str]] = [[]]

    def keep(answers: Sequence[TaskAnswer]) -> set[str]:
        rounds[-1] += (each.token for each in answers)
        return left

    def read() -> None:
        while sender.receive("shop", keep, limit=2):
            pass
        rounds.append([])

    with redis.Redis.from_url(redis_url) as client:
        client.lpush(QUEUE, *map(make_message, "12345"), "not a message")
        read()
        assert 3 == client.llen(QUEUE)
        client.lpush(QUEUE, make_message("6"))
        read()
        left.clear()
        read()
        assert 0 == client.llen(QUEUE)

    assert [[*"12345"], [*"1246"], [*"124"], []] == rounds


def make_huge_message(token: str) -> str:
    body = b64encode(json.dumps([["x" * 7_500_000], {}, {}]).encode()).decode()
    return json.dumps(json.loads(make_message(token)) | {"body": body})


def test_huge_answer_is_told_without_being_read(redis_url: str):
    """It is taken off, so that it cannot come again and again; the others come, too."""
    sender = make_sender(redis_url)
    huge, small = "huge", "small"
    kept: list[TaskAnswer] = []
    with redis.Redis.from_url(redis_url) as client:
        client.lpush(QUEUE, make_huge_message(huge), make_message(small))
        sent_before = client.info("stats")["total_net_output_bytes"]

        while sender.receive("shop", kept.extend, limit=10):
            pass

        sent = client.info("stats")["total_net_output_bytes"] - sent_before
        assert 0 == client.llen(QUEUE)
    assert [huge, small] == [each.token for each in kept]
    assert kept[0].succeeded
    assert "more than 1,000,000 bytes" in str(kept[0].note)
    assert sent < 1_000_000


def test_messages_are_read_in_batches_of_bounded_size(redis_url: str):
    """However many there are, and however large."""
    sender = make_sender(redis_url)
    batches: list[int] = []

    def keep(answers: Sequence[TaskAnswer]) -> None:
        batches.append(len(answers))

    with redis.Redis.from_url(redis_url) as client:
        large = json.loads(make_message("another"))
        large["body"] = b64encode(json.dumps([["x" * 900_000], {}, {}]).encode())
        large["body"] = large["body"].decode()
        client.lpush(QUEUE, *[json.dumps(large)] * 10)
        client.lpush(QUEUE, *[make_message("another") for _ in range(25)])

        while sender.receive("shop", keep, limit=20):
            pass

        assert 0 == client.llen(QUEUE)
    assert [6, 20, 9] == batches


def test_two_that_read_at_once_take_off_what_is_theirs(redis_url: str):
    """What came after it is not taken for it."""
    first, second = make_sender(redis_url), make_sender(redis_url)
    token = "a token"

    def read_meanwhile(_answers: Sequence[TaskAnswer]) -> None:
        wait_for_answers(second)
        client.lpush(QUEUE, make_message(token))

    with redis.Redis.from_url(redis_url) as client:
        client.lpush(QUEUE, make_message("another"))

        first.receive("shop", read_meanwhile, limit=10)

        assert 1 == client.llen(QUEUE)
    assert [token] == [each.token for each in wait_for_answers(first)]


def test_broker_that_is_away_is_temporary():
    """The answers stay there."""
    sender = make_sender(f"redis://127.0.0.1:{find_free_port()}/0")

    with pytest.raises(StepError, match="does not give the answers"):
        sender.receive("shop", print, limit=1)


def make_message(token: str) -> str:
    """Return an answer as kombu writes it to Redis."""
    return (
        '{"body": "W1s3XSwge30sIHt9XQ==", "content-type": "application/json",'
        ' "headers": {"task": "minutehand.task_succeeded", "minutehand-token":'
        f' "{token}"}}, "properties": {{}}}}'
    )
