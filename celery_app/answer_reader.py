"""
A thread beside the scheduler that reads the answers of users' own tasks.

The scheduler's thread does not do it: a broker of somebody's that hangs would keep it
from the next minute. Neither does a worker: its parent may have no thread, and its
children come and go. Whatever is read is a conditional update under a token, so any
number of schedulers may read at once, and none of them needs to lead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import sqlalchemy as sa
import structlog

from celery_app.foreign_queues import describe_silence
from celery_app.task_sender import CeleryTaskSender
from models.database.engine import make_engine, reading, writing
from models.errors import MinutehandError, StepError
from operations.fleet.installation import fetch_installation
from operations.foreign_tasks import TaskSender
from operations.task_waits import (
    fetch_listened,
    fetch_silent,
    note_remark,
    record_answers,
)
from settings import Settings
from telemetry import Event

log = structlog.get_logger()

#: Seconds between two looks at what has come.
EVERY_S = 1.0

#: Seconds for which a broker that could not be asked is left alone.
REST_S = 15.0

#: After this time somebody looks why a task has not answered; and how often.
SILENT_AFTER = timedelta(minutes=2)
LOOK_EVERY_S = 30.0

#: Answers that are read from one broker before the next has its turn, and turns in one
#: look: what is still left then waits for the next.
_AT_ONCE = 200
_TURNS = 50

#: Tasks that are examined at a time, and in how many places: each takes seconds, in
#: which no answer is read.
_MOST_SILENT = 500
_MOST_PLACES = 3


class AnswerReader:
    """
    Reads answers from every broker where somebody waits for one.

    Args:
        engine: Of its own.

        sender: Gives the answers.

        describe: Returns why a task may never answer: its connection, queue and name
            are given. None: nobody can tell.

        monotonic: Returns seconds that never jump.
    """

    def __init__(
        self,
        engine: sa.Engine,
        sender: TaskSender,
        describe: Callable[[str | None, str | None, str], str | None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read nothing yet."""
        self._engine = engine
        self._sender = sender
        self._describe = describe
        self._monotonic = monotonic
        self._rests: dict[str | None, float] = {}
        self._looked_at = float("-inf")

    def look(self) -> int:
        """
        Read what has come; return how many answers. No broker that fails stops it.

        Raises:
            UnreachableError: The database is away.
        """
        with reading(self._engine) as connection:
            listened = fetch_listened(connection)
        count = self._read_all(listened)
        now = self._monotonic()
        if listened and now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._notice_silence()
        return count

    def _read_all(self, listened: Sequence[str | None]) -> int:
        """Read from these brokers, in turns, until nothing is left."""
        count = 0
        for _turn in range(_TURNS):
            taken = {name: self._read(name) for name in listened}
            count += sum(taken.values())
            listened = [name for name in listened if taken[name] >= _AT_ONCE]
            if not listened:
                break
        return count

    def _read(self, name: str | None) -> int:
        if self._monotonic() < self._rests.get(name, float("-inf")):
            return 0
        keep = partial(record_answers, self._engine)
        try:
            return self._sender.receive(name, keep, limit=_AT_ONCE)
        except StepError as error:
            # They stay there; whoever waits looks once more at its deadline.
            log.warning(Event.ANSWERS_UNREAD, connection=name, error=str(error))
            self._rests[name] = self._monotonic() + REST_S
            return 0
        except (MinutehandError, sa.exc.SQLAlchemyError):
            raise  # the database: every broker waits for the next look
        except Exception:
            # What nobody expected of one broker must not stop the others' answers.
            log.exception(Event.ANSWERS_UNREAD, connection=name)
            self._rests[name] = self._monotonic() + REST_S
            return 0

    def _notice_silence(self) -> None:
        """Find out, for tasks that do not answer, whether anybody takes them."""
        with reading(self._engine) as connection:
            silent = fetch_silent(
                connection, older_than=SILENT_AFTER, limit=_MOST_SILENT
            )
        told: dict[tuple[str | None, str | None, str], str | None] = {}
        for each in silent:
            place = each.connection, each.queue, each.task
            if place not in told:
                if len(told) >= _MOST_PLACES:
                    continue  # at the next look
                told[place] = self._describe(*place)
            # Once for each: a task that takes hours is no reason to ask its worker.
            with writing(self._engine) as connection:
                note_remark(connection, each.operation_id, told[place] or "")


@contextmanager
def reading_answers(settings: Settings) -> Iterator[None]:
    """Read answers in a thread while the block runs."""
    stop = threading.Event()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)

    def read_installation() -> str | None:
        with reading(engine) as connection:
            return fetch_installation(connection)

    reader = AnswerReader(
        engine,
        CeleryTaskSender(settings, read_installation),
        partial(describe_silence, settings),
    )
    _start(reader, stop)
    try:
        yield
    finally:
        # It is not waited for: it may hang in a call to a broker of somebody's.
        stop.set()
        engine.dispose()


def _start(reader: AnswerReader, stop: threading.Event) -> None:
    threading.Thread(
        target=_run, args=(reader, stop), name="task-answers", daemon=True
    ).start()


def _run(reader: AnswerReader, stop: threading.Event) -> None:
    try:
        while not stop.wait(EVERY_S):
            try:
                reader.look()
            except (MinutehandError, sa.exc.SQLAlchemyError) as error:
                # The next look tries again; what was not kept was not taken off.
                log.warning(Event.ANSWERS_UNREAD, error=str(error))
    finally:
        # Even an error that nobody expected must not end it: its trace is written.
        if not stop.is_set():
            _start(reader, stop)
