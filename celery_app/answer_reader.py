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
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

import sqlalchemy as sa
import structlog

from celery_app.foreign_queues import Silence, describe_silence
from celery_app.task_sender import CeleryTaskSender
from dispatch.locked_rows import LOCK_PATIENCE
from models.database.engine import make_engine, reading, writing
from models.errors import LockedError, MinutehandError, StepError
from operations.fleet.processes import read_installation
from operations.foreign_tasks import TaskAnswer, TaskSender
from operations.task_ends import (
    Awaited,
    end_overdue,
    fetch_listened,
    fetch_overdue,
    fetch_silent,
    note_remark,
    record_answers,
)
from settings import Settings
from telemetry import Event

log = structlog.get_logger()

#: Seconds between two looks at what has come.
EVERY_S = 1.0

#: The same for so many looks after an answer: more will come, and what is due each
#: second is to end before it is due again.
SOON_S = 0.2
_SOON_LOOKS = 10

#: Seconds for which a broker that could not be asked is left alone.
REST_S = 15.0

#: After this time somebody looks why a task has not answered; and how often.
SILENT_AFTER = timedelta(minutes=2)
LOOK_EVERY_S = 30.0

#: Answers that are read from one broker before the next has its turn, and turns in one
#: look: what is still left then waits for the next.
_AT_ONCE = 500
_TURNS = 50

#: Tasks that are examined at a time, and in how many places: each takes seconds, in
#: which no answer is read. What was found of a place is believed for a while.
_MOST_SILENT = 500
_MOST_PLACES = 3
BELIEVED_S = 300.0

#: While answers cannot be read, nothing is judged by its deadline, but for so long at
#: most; and when they can be again, a worker that was cut off, too, has this time.
LISTEN_AFTER = timedelta(hours=1)
GRACE_S = 120.0

#: Of a broker whose answers another scheduler reads.
_ELSEWHERE = StepError("another scheduler reads its answers", permanent=False)

#: Seconds between two looks at where answers may come from, for each second that such
#: a look takes: it reads all that waits.
_SPACED = 20


@dataclass(slots=True)
class AnswerReader:
    """
    Reads answers from every broker where somebody waits for one.

    Args:
        engine: Of its own.
        sender: Gives the answers.
        describe: Returns why tasks do not answer: their connection, queue and name, and
            the ids of some, are given.
        monotonic: Returns seconds that never jump.
    """

    engine: sa.Engine
    sender: TaskSender
    describe: Callable[[str | None, str | None, str, Collection[str]], Silence]
    monotonic: Callable[[], float] = time.monotonic
    _listened: list[str | None] = field(default_factory=list)
    _listen_again_at: float = float("-inf")
    _rests: dict[str | None, float] = field(default_factory=dict)
    #: Why a broker cannot be read; and until when one has grace that was away, or had
    #: more than was read at a look.
    _troubles: dict[str | None, StepError] = field(default_factory=dict)
    _grace_until: dict[str | None, float] = field(default_factory=dict)
    #: Of what the answer was met at this look, and left where it is.
    _left: set[UUID] = field(default_factory=set)
    _told: dict[_Place, tuple[float, Silence]] = field(default_factory=dict)
    _looked_at: float = float("-inf")

    def look(self) -> int:
        """
        Read what has come, and end what has waited for too long.

        Returns:
            How many answers were read. No broker that fails stops it.

        Raises:
            UnreachableError: The database is away.
        """
        with reading(self.engine) as connection:
            # Before the answers are read: what is overdue by then, and is not among
            # them, was not answered in time.
            overdue = fetch_overdue(connection, limit=_MOST_SILENT)
            self._find_listened(connection)
        self._left.clear()
        count = self._read_all(self._listened)
        if overdue:
            self._judge(overdue)
        now = self.monotonic()
        if self._listened and now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._notice_silence()
        return count

    def _find_listened(self, connection: sa.Connection) -> None:
        began = self.monotonic()
        if began >= self._listen_again_at:
            self._listened = fetch_listened(connection)
            took_s = self.monotonic() - began
            self._listen_again_at = began + _SPACED * took_s

    def _read_all(self, listened: Sequence[str | None]) -> int:
        """Read from these brokers, in turns, until nothing is left."""
        count = 0
        for _turn in range(_TURNS):
            taken = {name: self._read(name) for name in listened}
            count += sum(taken.values())
            listened = [name for name in listened if taken[name]]
        self._grace_until |= dict.fromkeys(listened, self.monotonic() + GRACE_S)
        return count

    def _read(self, name: str | None) -> int:
        if self.monotonic() < self._rests.get(name, float("-inf")):
            return 0
        try:
            taken = self.sender.receive(name, self._keep, limit=_AT_ONCE)
        except StepError as error:
            # They stay there.
            log.warning(Event.ANSWERS_UNREAD, connection=name, error=str(error))
            self._rest(name, error)
            return 0
        except (MinutehandError, sa.exc.SQLAlchemyError):
            raise  # the database: every broker waits for the next look
        except Exception as error:
            # What nobody expected of one broker must not stop the others' answers.
            log.exception(Event.ANSWERS_UNREAD, connection=name)
            self._rest(name, StepError(type(error).__name__, permanent=False))
            return 0
        if taken is None:
            self._rest(name, _ELSEWHERE)
            return 0
        if self._troubles.pop(name, None) is not None:
            self._grace_until[name] = self.monotonic() + GRACE_S
        return taken

    def _keep(self, answers: Sequence[TaskAnswer]) -> Collection[str]:
        try:
            _, left = record_answers(self.engine, answers, self.sender.fetch_failure)
        except LockedError as error:  # something else than their operations
            raise StepError(str(error), permanent=False) from error
        self._left |= left.keys()
        return left.values()

    def _rest(self, name: str | None, error: StepError) -> None:
        self._rests[name] = self.monotonic() + REST_S
        self._troubles[name] = error

    def _judge(self, overdue: Sequence[Awaited]) -> None:
        """Fail what nobody told of in time, unless nobody could be heard."""
        ends: list[tuple[Awaited, str | None]] = []
        unanswered: list[Awaited] = []
        for each in overdue:
            name = each.task.connection
            trouble = self._troubles.get(name)
            is_heard = trouble is None and name in self._listened
            if each.operation_id in self._left:
                continue  # it was answered
            if trouble is not None:
                if trouble.permanent or each.late >= LISTEN_AFTER:
                    ends.append((each, str(trouble)))
            elif is_heard and self.monotonic() >= self._grace_until.get(name, 0.0):
                unanswered.append(each)
        end_overdue(self.engine, [*ends, *self._tell(unanswered)])

    def _tell(self, awaited: Sequence[Awaited]) -> Iterator[tuple[Awaited, str | None]]:
        """Pair each with why it is silent; with its remark, if nobody is asked now."""
        places: dict[_Place, list[Awaited]] = {}
        for each in awaited:
            place = each.task.connection, each.task.queue, each.task.name
            places.setdefault(place, []).append(each)
        now = self.monotonic()
        fresh = {k: v for k, v in self._told.items() if now - v[0] < BELIEVED_S}
        self._told = fresh
        asked_now = sum(now - at < LOOK_EVERY_S for at, _told in fresh.values())
        for place, those in places.items():
            ids = {each.task.id for each in those}
            at, told = fresh.get(place, (float("-inf"), None))
            is_told = told is not None and (not told.of or ids <= told.of.keys())
            if not is_told and now - at >= LOOK_EVERY_S and asked_now < _MOST_PLACES:
                asked_now += 1
                told = self.describe(*place, ids)
                fresh[place] = now, told
            for each in those:
                if told is None or (told.of and each.task.id not in told.of):
                    yield each, each.remark
                else:
                    yield each, told.of.get(each.task.id, told.why)

    def _notice_silence(self) -> None:
        """Find out, for tasks that do not answer, whether anybody takes them."""
        with reading(self.engine) as connection:
            silent = fetch_silent(
                connection, older_than=SILENT_AFTER, limit=_MOST_SILENT
            )
        remarks: dict[str | None, list[UUID]] = {}
        for each, remark in self._tell(silent):
            if remark != each.remark:
                remarks.setdefault(remark, []).append(each.operation_id)
        for remark, ids in remarks.items():
            with writing(self.engine) as connection:
                note_remark(connection, ids, remark)


#: A connection, a queue and the name of a task.
_Place = tuple[str | None, str | None, str]


@contextmanager
def reading_answers(settings: Settings) -> Iterator[None]:
    """Read answers in a thread while the block runs."""
    stop = threading.Event()
    engine = make_engine(
        settings.database_url,
        timeout=settings.database_timeout,
        lock_timeout=LOCK_PATIENCE,
    )
    reader = AnswerReader(
        engine,
        CeleryTaskSender(settings, partial(read_installation, engine)),
        partial(describe_silence, settings),
    )
    start_looking(reader.look, stop, Event.ANSWERS_UNREAD, "task-answers")
    try:
        yield
    finally:
        # It is not waited for: it may hang in a call to a broker of somebody's.
        stop.set()
        engine.dispose()


def start_looking(
    look: Callable[[], int], stop: threading.Event, trouble: Event, name: str
) -> None:
    """Begin a thread called *name* that looks as ``look_until``."""
    given = look, stop, trouble, name
    threading.Thread(target=look_until, args=given, name=name, daemon=True).start()


def look_until(
    look: Callable[[], int], stop: threading.Event, trouble: Event, name: str
) -> None:
    """
    Look until *stop* is set; tell once of each time without a database.

    Args:
        look: Returns how much it found; if it was something, more may come soon.
        trouble: How the log calls that.
        name: Of the thread that goes on after an error that nobody expected.
    """
    soon, told = 0, False
    try:
        while not stop.wait(SOON_S if soon else EVERY_S):
            try:
                soon = _SOON_LOOKS if look() else max(0, soon - 1)
                told = False
            except (MinutehandError, sa.exc.SQLAlchemyError) as error:
                # The next look tries again; nothing is lost.
                if not told:
                    log.warning(trouble, error=str(error))
                told = True
    finally:
        # Even an error that nobody expected must not end it: its trace is written.
        if not stop.is_set():
            start_looking(look, stop, trouble, name)
