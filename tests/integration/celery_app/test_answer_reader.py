"""The thread that reads answers: what it does at each look."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa
import structlog

from celery_app.answer_reader import (
    BELIEVED_S,
    GRACE_S,
    LISTEN_AFTER,
    LOOK_EVERY_S,
    REST_S,
    AnswerReader,
    look_until,
)
from celery_app.foreign_queues import Silence
from models.database.engine import db_now, writing
from models.database.tables import operations
from models.errors import StepError, UnreachableError
from operations.foreign_tasks import Keep, TaskAnswer, make_task_id
from operations.ports import Ports
from telemetry import Event
from tests.database import write_by
from tests.integration.operations.test_task_ends import DAILY, get_token, prepare, run
from tests.scheduling import MINUTE, edit, get, get_now, say_why
from tests.unit.operations.fakes import FakeTaskSender

#: The task of the operation that waits.
TASK = make_task_id(DAILY.id)


class CountingSender(FakeTaskSender):
    """Counts how often it is asked; raises its error then, if it has one."""

    asked = 0
    is_elsewhere = False

    def receive(self, connection: str | None, keep: Keep, *, limit: int) -> int | None:
        """Give the answers, unless another reader has them."""
        self.asked += 1
        if self.is_elsewhere:
            return None
        if self.error is not None:
            raise self.error
        return super().receive(connection, keep, limit=limit)


class Clock:
    """Seconds that a test lets pass."""

    now = 0.0

    def __call__(self) -> float:
        """Return them."""
        return self.now


Waiting = tuple[AnswerReader, CountingSender, Clock]


def make(engine: sa.Engine) -> Waiting:
    """Return a reader, its sender and its clock."""
    sender, clock = CountingSender(), Clock()
    reader = AnswerReader(
        engine,
        sender,
        lambda *place: Silence(f"nobody takes {place[:3]}"),
        monotonic=clock,
    )
    return reader, sender, clock


@pytest.fixture
def waiting(engine: sa.Engine, ports: Ports) -> Waiting:
    """Give them, and an operation that waits for its task."""
    prepare(engine)
    run(engine, ports)
    return make(engine)


def wait_until_overdue(engine: sa.Engine, late: timedelta = MINUTE) -> None:
    """Let the time be over that the task was given."""
    edit(engine, DAILY.id, send_at=get_now(engine) - late)


def test_nobody_is_asked_while_nothing_waits(engine: sa.Engine):
    """No connection is opened for it."""
    reader, sender, _clock = make(engine)
    prepare(engine)

    assert 0 == reader.look()

    assert 0 == sender.asked


def test_answer_ends_its_operation(engine: sa.Engine, waiting: Waiting):
    """Also one that was read when its time was over."""
    reader, sender, _clock = waiting
    wait_until_overdue(engine)
    sender.answers = [TaskAnswer(get_token(engine), succeeded=True)]

    assert 1 == reader.look()

    assert "succeeded" == get(engine, DAILY.id).state


def test_silence_is_judged_at_the_deadline(engine: sa.Engine, waiting: Waiting):
    """With what is known of its queue."""
    reader, _sender, _clock = waiting
    reader.look()
    assert "pending" == get(engine, DAILY.id).state
    wait_until_overdue(engine)

    reader.look()

    row = get(engine, DAILY.id)
    assert "failed" == row.state
    assert "within PT10M; nobody takes (None, 'reports', 'shop.report')" in row.error


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_nothing_is_judged_while_answers_cannot_be_read(
    engine: sa.Engine, waiting: Waiting, *, is_elsewhere: bool
):
    """Nor right after that: their worker may have been cut off as we were."""
    reader, sender, clock = waiting
    wait_until_overdue(engine)
    sender.is_elsewhere = is_elsewhere
    sender.error = None if is_elsewhere else StepError("away", permanent=False)
    reader.look()
    sender.is_elsewhere, sender.error = False, None
    clock.now = REST_S
    reader.look()
    assert "pending" == get(engine, DAILY.id).state
    clock.now = REST_S + GRACE_S

    reader.look()

    assert "failed" == get(engine, DAILY.id).state


@pytest.mark.parametrize(
    ("permanent", "late"), [(False, LISTEN_AFTER + MINUTE), (True, MINUTE)]
)
def test_broker_is_waited_for_within_bounds(
    engine: sa.Engine, waiting: Waiting, late: timedelta, *, permanent: bool
):
    """An hour, or not at all if the settings do not know it any more."""
    reader, sender, _clock = waiting
    wait_until_overdue(engine, late)
    sender.error = StepError("it is gone", permanent=permanent)

    reader.look()

    assert "within PT10M; it is gone" in get(engine, DAILY.id).error


def test_everything_there_is_read_at_one_look(waiting: Waiting):
    """In batches, until there is none."""
    reader, sender, _clock = waiting
    sender.answers = [TaskAnswer("x", succeeded=True) for _ in range(1_001)]

    assert 1_001 == reader.look()

    assert 4 == sender.asked


def test_broker_that_fails_is_left_alone_for_a_while(waiting: Waiting):
    """So that it does not keep the others waiting at each look."""
    reader, sender, clock = waiting
    sender.error = StepError("away", permanent=False)

    reader.look()
    reader.look()
    clock.now = REST_S
    reader.look()

    assert 2 == sender.asked


def test_answer_to_what_is_locked_is_read_later(
    postgres_engine: sa.Engine, ports: Ports
):
    """It stays at its broker, and is no silence, though the time is over."""
    prepare(postgres_engine)
    run(postgres_engine, ports)
    wait_until_overdue(postgres_engine)
    shell = postgres_engine.connect()
    shell.execute(sa.select(operations).with_for_update())

    class Sender(CountingSender):
        """The lock goes before silence is judged."""

        def receive(
            self, connection: str | None, keep: Keep, *, limit: int
        ) -> int | None:
            """Give the answers."""
            given = super().receive(connection, keep, limit=limit)
            shell.close()
            return given

    told = [TaskAnswer(get_token(postgres_engine), succeeded=True)]
    sender = Sender(answers=told)
    reader = AnswerReader(postgres_engine, sender, lambda *_place: Silence())

    assert 1 == reader.look()
    before = get(postgres_engine, DAILY.id).state
    assert 1 == reader.look()

    assert ("pending", "succeeded") == (before, get(postgres_engine, DAILY.id).state)


def test_task_that_nobody_takes_is_told_after_minutes(
    engine: sa.Engine, waiting: Waiting
):
    """Where one looks, in what the operation waits for; until somebody takes it."""
    reader, _sender, clock = waiting
    reader.look()
    with writing(engine) as connection:
        before = say_why(connection, DAILY.id)
        connection.execute(sa.update(operations).values(sent_at=db_now(-3 * MINUTE)))
    clock.now = LOOK_EVERY_S

    reader.look()

    after = write_by(engine, say_why, DAILY.id)
    assert "nobody" not in before
    assert "nobody takes (None, 'reports', 'shop.report')" in after

    reader.describe = lambda *_place: Silence()
    clock.now += BELIEVED_S
    reader.look()

    assert before == write_by(engine, say_why, DAILY.id)


def test_place_is_asked_again_for_a_task_that_it_did_not_tell_of(
    engine: sa.Engine, waiting: Waiting
):
    """What it told of another one is no answer; but what holds for all of them is."""
    reader, _sender, clock = waiting
    edit(engine, DAILY.id, sent_at=get_now(engine) - 3 * MINUTE)
    told = iter([Silence(of={"another": "lost"}), Silence(of={TASK: "lost"})])
    reader.describe = lambda *_place: next(told)
    reader.look()
    before = get(engine, DAILY.id).error
    clock.now = LOOK_EVERY_S

    reader.look()

    assert (None, "lost") == (before, get(engine, DAILY.id).error)
    clock.now += LOOK_EVERY_S
    reader.look()
    with pytest.raises(StopIteration):
        next(told)


def test_what_a_place_told_of_other_tasks_takes_back_no_remark(
    engine: sa.Engine, waiting: Waiting
):
    """It stays until the place is asked again, and is told if the time ends before."""
    reader, _sender, clock = waiting
    edit(engine, DAILY.id, sent_at=get_now(engine) - 3 * MINUTE, error="lost")
    reader.describe = lambda *_place: Silence(of={"another": None})
    reader.look()
    kept = get(engine, DAILY.id).error
    wait_until_overdue(engine)
    clock.now = LOOK_EVERY_S - 1

    reader.look()

    assert "lost" == kept
    assert "PT10M; lost" in (get(engine, DAILY.id).error or "")


def test_database_that_is_away_is_told_once(engine: sa.Engine):
    """Not at each look; and again when it is away another time."""

    class Stop(threading.Event):
        """Lets no time pass."""

        def wait(self, timeout: float | None = None) -> bool:
            """Tell whether it is set."""
            return timeout is None or self.is_set()

    class Reader(AnswerReader):
        """Meets a database that is away as often as this says."""

        looks: tuple[str, ...] = ("away", "away", "", "again", "again")

        def look(self) -> int:
            """Look once more; the last look ends it."""
            error, self.looks = self.looks[0], self.looks[1:]
            if not self.looks:
                stop.set()
            if error:
                raise UnreachableError(error)
            return 0

    stop = Stop()
    reader = Reader(engine, CountingSender(), lambda *_: Silence())
    with structlog.testing.capture_logs() as told:
        look_until(reader.look, stop, Event.ANSWERS_UNREAD, "answers")

    assert ["away", "again"] == [each["error"] for each in told]
