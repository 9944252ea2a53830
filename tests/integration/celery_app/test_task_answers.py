"""Answers of a real worker, taken off Redis only when they are kept."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid4

import pytest
import redis

from celery_app.routing import find_answer_queue
from celery_app.task_sender import CeleryTaskSender
from models.errors import StepError, UnreachableError
from operations.foreign_tasks import Answer, ForeignTask
from settings import read_settings
from tests.project import run_project
from tests.servers import find_free_port, wait_until

INSTALLATION = str(uuid4())
QUEUE = find_answer_queue("minutehand", INSTALLATION)


def make_sender(url: str) -> CeleryTaskSender:
    """Return a sender with a connection to *url*; our own broker is in memory."""
    variables = {
        "MINUTEHAND_BROKER_URL": "memory://",
        "MINUTEHAND_BROKER_TIMEOUT": "PT1S",
        "MINUTEHAND_TASK_CONNECTIONS": f"shop={url}",
    }
    settings = read_settings(variables, env_file=None)
    return CeleryTaskSender(settings, lambda: INSTALLATION)


def make_task(token: UUID, name: str = "shop.report") -> ForeignTask:
    """Return a task of the project."""
    return ForeignTask(
        name, str(uuid4()), [], connection="shop", queue="reports", token=token
    )


def test_answers_of_a_plain_worker_come_back(redis_url: str, tmp_path: Path):
    """
    Without a line of code there: success with a token, and failure too.
    """
    sender = make_sender(redis_url)
    good, bad = uuid4(), uuid4()
    found: dict[UUID, Answer] = {}

    def keep(answer: Answer) -> None:
        found[answer.token] = answer

    with run_project(tmp_path, redis_url, "reports"):
        sender.send(make_task(good))
        # every worker knows this one, and it cannot do without arguments
        sender.send(make_task(bad, "celery.map"))

        def has_both() -> bool:
            sender.receive("shop", keep, limit=10)
            return {good, bad} == set(found)

        wait_until(has_both, timeout_s=60, what="both answers")

    assert found[good].succeeded
    assert not found[bad].succeeded


def test_what_is_not_kept_stays(redis_url: str):
    """
    A database that is away, or a process that dies, loses no answer.
    """
    sender = make_sender(redis_url)
    token = uuid4()
    kept: list[Answer] = []

    def refuse(_answer: Answer) -> None:
        raise UnreachableError("no database")

    with redis.Redis.from_url(redis_url) as client:
        client.lpush(QUEUE, "not a message")
        client.lpush(QUEUE, make_message(token))
        with pytest.raises(UnreachableError):
            sender.receive("shop", refuse, limit=10)
        assert 1 == client.llen(QUEUE)  # what is no answer is dropped

        assert 1 == sender.receive("shop", kept.append, limit=10)
        assert 0 == client.llen(QUEUE)

    assert [token] == [each.token for each in kept]
    assert 0 == sender.receive("shop", kept.append, limit=10)


def test_broker_that_is_away_is_temporary():
    """
    The answers stay there.
    """
    sender = make_sender(f"redis://127.0.0.1:{find_free_port()}/0")

    with pytest.raises(StepError, match="does not give the answers"):
        sender.receive("shop", print, limit=1)


def make_message(token: UUID) -> str:
    """Return an answer as kombu writes it to Redis."""
    return (
        '{"body": "W1s3XSwge30sIHt9XQ==", "content-type": "application/json",'
        ' "headers": {"task": "minutehand.task_succeeded", "minutehand-token":'
        f' "{token}"}}, "properties": {{}}}}'
    )
