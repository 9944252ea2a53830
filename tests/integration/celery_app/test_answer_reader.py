"""The thread that reads answers: what it does at each look."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from celery_app.answer_reader import LOOK_EVERY_S, REST_S, AnswerReader
from models.database.engine import db_now, writing
from models.database.tables import task_waits
from models.errors import StepError
from operations.foreign_tasks import LISTEN_AFTER, Answer
from operations.ports import Ports
from operations.sending.why_not_sent import find_hindrances
from tests.integration.operations.test_task_waits import (
    DAILY,
    MINUTE,
    get_sendable,
    get_token,
    prepare,
    run,
)
from tests.unit.operations.fakes import FakeTaskSender, World


class CountingSender(FakeTaskSender):
    """Counts how often it is asked; raises its error then, if it has one."""

    asked = 0

    def receive(self, connection: str | None, keep: object, *, limit: int) -> int:
        """Give the answers."""
        self.asked += 1
        if self.error is not None:
            raise self.error
        return super().receive(connection, keep, limit=limit)  # type: ignore[arg-type]


class Clock:
    """Seconds that a test lets pass."""

    now = 0.0

    def __call__(self) -> float:
        """Return them."""
        return self.now


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    """Give a world with a sender that keeps what it is sent."""
    return World(tmp_path).make_context().ports


def make(engine: sa.Engine) -> tuple[AnswerReader, CountingSender, Clock]:
    """Return a reader, its sender and its clock."""
    sender, clock = CountingSender(), Clock()
    reader = AnswerReader(
        engine, sender, lambda *place: f"nobody takes {place}", monotonic=clock
    )
    return reader, sender, clock


def test_nobody_is_asked_while_nothing_waits(engine: sa.Engine, ports: Ports):
    """
    Before, and an hour after the last deadline.
    """
    reader, sender, _clock = make(engine)
    assert 0 == reader.look()
    prepare(engine)
    run(engine, ports)
    with writing(engine) as connection:
        late = db_now(-LISTEN_AFTER - MINUTE)
        connection.execute(sa.update(task_waits).values(deadline=late))
    assert 0 == reader.look()

    assert 0 == sender.asked


def test_answer_is_recorded(engine: sa.Engine, ports: Ports):
    """
    And its operation goes on.
    """
    reader, sender, _clock = make(engine)
    prepare(engine)
    run(engine, ports)
    sender.answers = [Answer(get_token(engine), succeeded=True)]

    assert 1 == reader.look()

    assert [DAILY.id] == get_sendable(engine)


def test_everything_there_is_read_at_one_look(engine: sa.Engine, ports: Ports):
    """
    In batches, until one is not full.
    """
    reader, sender, _clock = make(engine)
    prepare(engine)
    run(engine, ports)
    sender.answers = [Answer(uuid4(), succeeded=True) for _ in range(1_001)]

    assert 1_001 == reader.look()

    assert 6 == sender.asked


def test_broker_that_fails_is_left_alone_for_a_while(engine: sa.Engine, ports: Ports):
    """
    So that it does not keep the others waiting at each look.
    """
    reader, sender, clock = make(engine)
    prepare(engine)
    run(engine, ports)
    sender.error = StepError("away", permanent=False)

    reader.look()
    reader.look()
    clock.now = REST_S
    reader.look()

    assert 2 == sender.asked


def test_task_that_nobody_takes_is_told_after_minutes(engine: sa.Engine, ports: Ports):
    """
    Where one looks: in what the operation waits for.
    """
    reader, _sender, clock = make(engine)
    prepare(engine)
    run(engine, ports)
    reader.look()
    with writing(engine) as connection:
        before = find_hindrances(connection, [DAILY.id])[DAILY.id]
        connection.execute(sa.update(task_waits).values(sent_at=db_now(-3 * MINUTE)))
    clock.now = LOOK_EVERY_S

    reader.look()

    with writing(engine) as connection:
        after = find_hindrances(connection, [DAILY.id])[DAILY.id]
    assert "nobody" not in before
    assert "nobody takes (None, 'reports', 'shop.report')" in after
