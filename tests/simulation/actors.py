"""
Who acts in a simulated world: schedulers, workers, and people with their commands.

Schedulers and workers run the real code; only the loop around it (sleep, receive,
acknowledge) is written again, for it is Celery's or the operating system's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from actions.lease import Leader
from actions.own_actions import ensure_maintenance
from actions.pausing.pause_and_resume import pause_action, resume_action
from actions.posting.post import Posting, delete_action, post_action
from actions.user_events import NewEvent, record_events
from celery_app.answer_reader import AnswerReader
from celery_app.foreign_queues import Silence
from celery_app.tasks import execute
from dispatch.manual_runs import run_now
from dispatch.task_outbox import TaskOutbox
from models.database.engine import reading, writing
from models.database.tables import operations, scheduled_actions
from models.door.documents import read_action_object
from models.errors import MinutehandError, UnreachableError
from models.operation_state import LIVE_STATES, Queue, Reason
from operations.cancel_and_retry import cancel, reopen
from operations.claiming.heart import Heart, Worker
from scheduler_server import Scheduler
from settings import Settings
from tests.simulation.broker import SimulatedSender
from tests.simulation.loop import MINUTE, SECOND, Crash, Process
from tests.simulation.own_tasks import SimulatedAnswers, SimulatedCouriers
from tests.simulation.ports import make_ports
from tests.simulation.scenario import APP, PEOPLE, SEEN, SIGNUP, make_document

if TYPE_CHECKING:
    from tests.simulation.world import World

LEASE = timedelta(seconds=60)
BEAT = timedelta(seconds=10)

#: What a scheduler that was asked to stop, and a worker, are given to end.
_GRACE = 2 * SECOND


def run_scheduler(world: World, process: Process) -> None:
    """Be ``scheduler_server.run``, on a host that is not always fast."""
    settings = Settings(
        lookback=world.lookback, chunk=world.chunk, home=Path("nowhere")
    )
    if world.emphasis.strain or world.emphasis.expects:
        settings = settings.model_copy(update={"notice_mail": "ops@example.org"})

    def monotonic() -> float:
        return world.monotonic(process)

    scheduler = Scheduler(
        world.engine,
        Leader(world.engine, monotonic=monotonic),
        SimulatedSender(world.broker, process, world),
        TaskOutbox(world.engine, SimulatedCouriers(world, process), monotonic),
        settings,
        monotonic=monotonic,
        host_clock=lambda: world.host_clock(process),
    )
    process.runs = scheduler
    try:
        ensure_maintenance(
            world.engine,
            Settings.model_construct(
                maintenance_at=time((world.start.hour + 1) % 24, 5)
            ),
        )
    except UnreachableError:
        world.end(process)
        return
    while True:
        pause = max(0.001, scheduler.wake())
        if world.is_strained():
            world.loop.sleep(int(pause * SECOND))
            continue
        # A pause of a second costs a simulated hour 3,600 looks at nothing: most
        # hosts here are slow, but none sleeps through the start of a minute for long.
        slowness = world.slowness if scheduler.leader.fence is not None else 40
        world.loop.sleep(
            int(pause * SECOND * world.rng.uniform(slowness / 2, slowness))
        )


def run_reader(world: World, process: Process) -> None:
    """Be the thread that reads answers."""
    reader = AnswerReader(
        world.engine,
        SimulatedAnswers(world=world, process=process),
        lambda _connection, _queue, name, _ids: Silence(f"nobody knows {name}"),
        monotonic=lambda: world.monotonic(process),
    )
    while True:
        with suppress(MinutehandError, sa.exc.SQLAlchemyError):
            reader.look()
        world.loop.sleep(world.rng.randrange(2 * SECOND, 30 * SECOND))


class SimulatedHeart(Heart):
    """A heart that beats in a task of its process instead of a thread."""

    def __init__(self, world: World, process: Process) -> None:
        """Beat as production does."""
        super().__init__(world.engine, lease=LEASE, every=BEAT)
        self._world = world
        self._process = process

    def start_beating(self) -> None:
        """Beat every ten seconds from now on."""
        self._world.loop.spawn(self._process, self._forever, delay=10 * SECOND)

    def _forever(self) -> None:
        while not self._stopped.is_set():
            self.beat()
            self._world.loop.sleep(10 * SECOND)


def start_worker(
    world: World, process: Process, queues: frozenset[Queue], slots: int
) -> None:
    """Start the slots of a worker process, which share its heart."""

    def sleep(duration: int) -> None:
        world.loop.sleep(duration)

    heart = SimulatedHeart(world, process)
    worker = Worker(
        world.engine,
        make_ports(
            *(world.database, world.mail_server, world.suffer, sleep),
            send=world.theirs.take,
        ),
        heart,
        monotonic=lambda: world.monotonic(process),
    )
    process.runs = worker
    for _slot in range(slots):
        world.loop.spawn(process, lambda: _consume(world, process, worker, queues))


def _consume(
    world: World, process: Process, worker: Worker, queues: frozenset[Queue]
) -> None:
    """Be Celery's consumer: take a message, run it, acknowledge it at the end."""
    while True:
        line, message = world.broker.receive(queues)
        try:
            execute(worker, str(message), process.name)
        except MinutehandError:
            pass  # the task failed, and a failed task is acknowledged too
        except Crash:
            world.broker.lose_worker(line, message)
            raise


def stop_gently(world: World, process: Process) -> None:
    """Do what SIGTERM does, then be gone."""

    def stop() -> None:
        try:
            if process.kind == "scheduler" and process.runs is not None:
                process.runs.stop()
            elif process.kind == "worker":
                process.runs.heart.stop()
        except UnreachableError:
            pass
        world.loop.sleep(_GRACE)
        world.end(process)
        raise Crash

    world.loop.spawn(process, stop)


@dataclass(eq=False)
class People:
    """Admins and operators, who do one thing after the other and see errors."""

    world: World
    process: Process
    edits: bool
    done: int = 0

    def run(self) -> None:
        """Act every minute or so."""
        rng = self.world.rng
        while True:
            self.world.loop.sleep(rng.randrange(5 * SECOND, 2 * MINUTE))
            act = rng.choice(self._acts())
            try:
                act(rng)
            except MinutehandError:
                continue  # told so, and shrugged

    def edit_now(self) -> None:
        """Edit something at this very moment."""

        def edit() -> None:
            with suppress(MinutehandError):
                self._edit(self.world.rng)

        if self.edits and self.process.alive:
            self.world.loop.spawn(self.process, edit)

    def begin_anew(self, operation_id: UUID) -> None:
        """Cancel an operation, and retry it at once."""

        def act() -> None:
            with suppress(MinutehandError), writing(self.world.engine) as connection:
                if cancel(connection, operation_id, reason=Reason.CANCELED):
                    reopen(connection, operation_id)

        if self.process.alive:
            self.world.loop.spawn(self.process, act)

    def _acts(self) -> list[Callable[[Random], None]]:
        acts = [self._sign_up, self._be_seen, self._run, self._cancel, self._retry]
        return [*acts, self._sign_up, *([self._edit] if self.edits else [])]

    def _sign_up(self, rng: Random) -> None:
        self.done += 1
        event = NewEvent(APP, SIGNUP, rng.choice(PEOPLE), key=f"key {self.done}")
        with writing(self.world.engine) as connection:
            record_events(connection, [event])

    def _be_seen(self, rng: Random) -> None:
        ago = timedelta(seconds=rng.randrange(0, 200))
        at = self.world.database_clock() - ago
        event = NewEvent(APP, SEEN, rng.choice(PEOPLE), at=at)
        with writing(self.world.engine) as connection:
            record_events(connection, [event])

    def _run(self, rng: Random) -> None:
        uid = rng.choice(["mail", "refresh", "task", "hook"])
        self.done += 1
        key = f"key {self.done}"
        for _attempt in range(3):
            try:
                run_now(self.world.engine, uid, key=key)
            except UnreachableError:
                self.world.loop.sleep(SECOND)
            else:
                return

    def _cancel(self, rng: Random) -> None:
        found = self._pick(rng, [state.value for state in LIVE_STATES])
        if found is not None:
            with writing(self.world.engine) as connection:
                cancel(connection, found, reason=Reason.CANCELED)

    def _retry(self, rng: Random) -> None:
        found = self._pick(rng, ["failed", "canceled"])
        if found is not None:
            with writing(self.world.engine) as connection:
                reopen(connection, found)

    def _pick(self, rng: Random, states: list[str]) -> UUID | None:
        query = (
            sa.select(operations.c.id)
            .where(operations.c.state.in_(sorted(states)))
            .order_by(operations.c.id)
        )
        with reading(self.world.engine) as connection:
            ids = connection.execute(query).scalars().all()
        return rng.choice(ids) if ids else None

    def _edit(self, rng: Random) -> None:
        uid = rng.choice(["mail", "refresh", "task", "hook", "publish"])
        change = rng.randrange(5)
        with writing(self.world.engine) as connection:
            if change == 0:
                row = connection.execute(
                    sa.select(scheduled_actions.c.paused_at).where(
                        scheduled_actions.c.uid == uid
                    )
                ).one()
                switch = pause_action if row.paused_at is None else resume_action
                switch(connection, uid)
            elif change == 1 and uid == "publish":
                delete_action(connection, uid)
            else:
                possible: list[dict[str, object]] = [
                    {"when": {"cron_rule": "*/2 * * * *"}},
                    {"when": {"every": "PT3M"}},
                    {"active": rng.random() < 0.7},
                    {"name": f"{uid} renamed"},
                ]
                changes = possible[change - 1]
                action = read_action_object(make_document(uid, **changes))
                post_action(connection, APP, action, Posting(replace=True))


def first_hour() -> list[datetime]:
    """Return hours worth living through: a plain one, and two with a clock change."""
    return [
        datetime(2026, 3, 4, 9, 58, 30, tzinfo=UTC),
        datetime(2026, 3, 29, 0, 30, 7, tzinfo=UTC),
        datetime(2026, 10, 25, 0, 29, 59, tzinfo=UTC),
        datetime(2026, 12, 31, 23, 15, 0, tzinfo=UTC),
    ]


#: Frozen for less and for more than every lease there is.
FREEZES = (3 * SECOND, 20 * SECOND, 70 * SECOND, 4 * MINUTE, 12 * MINUTE)
