"""
What happens to an installation: each fault by its name, and the storm of all at once.

A fault is a context: it hurts, and mends when the block ends. In between runs are asked
for, and doctor has to name the cause.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

import redis
import sqlalchemy as sa

from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from celery_app.routing import find_broker_names
from models.database.tables import breakers, deliveries, operations
from models.errors import UnreachableError
from models.operation_state import MailState, OperationState, Queue, Trigger
from operations.sending.order import Message
from tests.chaos.apps import DATA, MAIL, SEND, TASK, find_source
from tests.chaos.case import Case
from tests.chaos.ledger import LATE
from tests.chaos.mails import Mood
from tests.chaos.servers import Victim
from tests.chaos.world import ROLE, World
from tests.database import execute, fetch_rows
from tests.neighbours.hostile import FORMS, make_envelope, mutate

Block = AbstractContextManager[object]

#: Messages that wait when Redis goes, so that workers are in the middle of taking.
WAITING = 1000

#: What workers may need to take three times as many, on a machine that is busy.
FULL_S = 600.0

#: Of each kind of hostile message, for each of two queues.
POISON = 20

#: Of the storm: how many of all may be down or frozen at a time; and seconds, from
#: shorter than a heartbeat to longer than every lease.
MOST_AT_ONCE = 3
FROZEN_S = (0.3, 12.0)
DOWN_S = (0.0, 3.0)
PAUSE_S = (0.2, 1.5)

#: How long a deploy takes, so that each program meets several minutes.
_DEPLOY_S = 300

#: How long the clock of the database is wrong: a minute begins at least once.
_CLOCK_S = 60

#: Of so many mails in the storm one costs its sender its life.
DEADLY_EVERY = 40


@dataclass(frozen=True, slots=True)
class Fault:
    """
    Something that happens to an installation.

    Args:
        name: For ``--faults``, and for people.
        hurt: Does it, and mends it.
        lasts_s: At least.
        named: What doctor says of it. None: it is not asked.
        asks: Of which action runs are asked for meanwhile, in each app, and how many.
    """

    name: str
    hurt: Callable[[World, Case], Block]
    lasts_s: float = 0
    named: str | None = None
    asks: tuple[str, int] | None = (SEND, 2)


def do(fault: Fault, world: World, case: Case) -> None:
    """Do it, see what becomes of it, and mend it."""
    with fault.hurt(world, case):
        if fault.asks is not None:
            case.must_end += world.ask_for(*fault.asks)
        if fault.named is not None:
            case.expect_doctor(world.ask_doctor, fault.named)
        world.pause(fault.lasts_s - case.age_s)
        lasted_s = case.age_s
    case.notes.append(f"lasted {lasted_s:.0f} s, mended {case.age_s - lasted_s:.0f} s")
    if fault.asks is not None and fault.asks[0] == TASK:
        wait_for_tasks(world, case)


def wait_for_tasks(world: World, case: Case) -> None:
    """Wait for their ends, for a storm that empties their Redis would lose them."""
    world.wait(lambda: not world.count_live(case.must_end), what="answers", every_s=1)


# -- processes -------------------------------------------------------------------------


@contextmanager
def take(
    world: World, case: Case, *, name: str, freezes: bool = False
) -> Iterator[None]:
    """Kill or freeze what is called *name*."""
    found = [each for each in world.whole if each.name == name]
    if not found:
        case.leave_out("it is not installed")
        yield
        return
    (world.freeze if freezes else world.kill)(found[0])
    try:
        yield
    finally:
        world.start(found[0])


@contextmanager
def take_leader(world: World, case: Case, *, freezes: bool) -> Iterator[None]:
    """Kill or freeze who leads; the other takes over within the lease, and stays."""
    leader, fence = world.wait_for_leader()
    if freezes:
        # in the middle of a tick
        world.wait(lambda: time.time() % 60 < 1, what="a minute", every_s=0.05)
    case.start()
    (world.freeze if freezes else world.kill)(leader)
    try:
        other, taken = world.wait_for_leader(beyond=fence)
        case.notes.append(f"{other.name} led after {case.age_s:.0f} s")
        if other is leader:
            case.wrong.append("nobody took over from the leader")
        case.expect_doctor(world.ask_doctor, rf"leader: .*pid {other.pid}\b")
        yield
    finally:
        world.start(leader)
    world.pause(5)
    now, fence = world.wait_for_leader()
    if (now, fence) != (other, taken):
        case.wrong.append(f"fence {fence} of {now.name} after {leader.name} came back")


@contextmanager
def deploy(world: World, case: Case) -> Iterator[None]:
    """
    Replace every process in turn, as the installation of a new version does.

    The standby comes before the leader, which goes just before a minute begins. No
    minute may be late because of that.
    """
    leader, _fence = world.wait_for_leader()
    processes = sorted(world.processes, key=lambda each: each is leader)
    case.start()
    begun_at = datetime.now(UTC)
    for number, process in enumerate(processes, start=1):
        case.must_end += world.ask_for(SEND, 2)
        if process is leader:
            world.wait(lambda: time.time() % 60 > 59, what="a minute", every_s=0.05)
        world.replace(process, signal.SIGTERM)
        world.pause(number * _DEPLOY_S / len(processes) - case.age_s)
    world.wait_for_leader()
    yield
    _judge_minutes(world, case, begun_at)


def _judge_minutes(world: World, case: Case, since: datetime) -> None:
    """Find what was due since then and was missed, or recorded late."""
    kept = operations.c
    is_due = kept.trigger == Trigger.SCHEDULE, kept.occurrence >= since
    query = sa.select(kept.occurrence, kept.recorded_at, kept.state)
    rows = fetch_rows(world.engine, query.where(*is_due)).all()
    missed = sum(row.state == OperationState.MISSED for row in rows)
    recorded = [row.recorded_at - row.occurrence for row in rows]
    latest = max(recorded, default=LATE)
    minutes = len({row.occurrence.replace(second=0) for row in rows})
    case.notes.append(
        f"{len(rows)} due in {minutes} minutes, {missed} missed, recorded"
        f" {latest.total_seconds():.2f} s late at most"
    )
    # One that began a moment ago may not be recorded yet.
    expected = int((case.age_s - LATE.total_seconds()) // 60)
    if missed or latest > LATE or minutes < expected:
        case.wrong.append(f"of {expected} minutes: {case.notes[-1]}")


@contextmanager
def kill_theirs(world: World, case: Case) -> Iterator[None]:
    """Kill the project's worker again and again while tasks go straight to it."""
    for _ in range(5):
        case.must_end += world.ask_for(TASK, 10)
        world.pause(world.rng.uniform(0.5, 3))
        world.kill(world.project)
        world.start(world.project)
    yield
    wait_for_tasks(world, case)


# -- mail ------------------------------------------------------------------------------


@contextmanager
def break_mail(world: World, case: Case, *, mood: Mood) -> Iterator[None]:
    """Let the mail server break as *mood* says."""
    before = _count_uncertain(world)
    world.mails.become(mood)
    try:
        case.must_end += world.ask_for(MAIL, 1)
        if mood is Mood.DROPS:
            world.wait(lambda: _count_uncertain(world) > before, what="uncertain mails")
        yield
    finally:
        world.mails.become(Mood.WELL)
    world.wait(lambda: not _is_known_broken(world), what="the next trial")


def _is_known_broken(world: World) -> bool:
    return fetch_rows(world.engine, sa.select(breakers)).first() is not None


def _count_uncertain(world: World) -> int:
    is_uncertain = deliveries.c.state == MailState.UNCERTAIN
    count = sa.select(sa.func.count()).where(is_uncertain)
    return fetch_rows(world.engine, count).scalar_one()


# -- broker ----------------------------------------------------------------------------


@contextmanager
def flush(world: World, case: Case) -> Iterator[None]:
    """Empty it while messages wait; what was in it is sent again."""
    case.must_end += world.ask_for(SEND, 20)
    world.wait(lambda: world.count_waiting() > 20, what="messages", every_s=0.01)
    case.notes.append(f"{world.count_waiting()} messages waited")
    empty(world, world.broker)
    yield


@contextmanager
def restart_redis(world: World, case: Case) -> Iterator[None]:
    """Restart it three times, each with a thousand messages waiting."""
    for _ in range(3):
        case.must_end += world.ask_for(SEND, 15)
        fill(world)
        world.kill(world.broker)
        world.pause(2)
        world.start(world.broker)
    yield
    rest = "workers to take the rest"
    world.wait(lambda: world.count_waiting() < 20, what=rest, timeout_s=FULL_S)


def empty(world: World, server: Victim) -> None:
    """Empty the Redis *server*, if it answers."""
    with (
        suppress(redis.RedisError),
        redis.Redis.from_url(server.url, socket_timeout=1) as client,
    ):
        client.flushall()
        world.note("empty", server.name).ended_at = datetime.now(UTC)


def fill(world: World) -> None:
    """Let many messages wait, of operations that are nowhere."""
    settings = world.installation.settings
    sender = CelerySender(make_app(settings), timeout=settings.broker_timeout)
    new = [Message(uuid4(), Queue.QUICK, "chaos", 0) for _ in range(WAITING)]
    with suppress(UnreachableError):
        sender.send(new)
    sender.close()


@contextmanager
def poison(world: World, case: Case) -> Iterator[None]:
    """Push what cannot be read onto our queues, between what can."""
    case.must_end += world.ask_for(SEND, 2)
    app = make_app(world.installation.settings)
    push(
        world,
        [
            spoil(make_envelope(app, uuid4())).encode(errors="surrogateescape")
            for spoil in [*FORMS.values()] * POISON
        ],
        (Queue.QUICK, Queue.HEAVY),
    )
    yield
    world.wait(lambda: world.count_waiting() < len(FORMS), what="workers to go on")


def push(world: World, texts: Sequence[bytes], queues: Sequence[Queue]) -> None:
    """Push *texts* onto the first lane of our *queues*, if Redis answers."""
    prefix = world.installation.settings.queue_prefix
    with (
        suppress(redis.RedisError),
        redis.Redis.from_url(world.broker.url, socket_timeout=1) as client,
    ):
        for queue in queues:
            for text in texts:
                client.lpush(find_broker_names(queue, prefix)[0], text)
    world.note("poison", "queues").ended_at = datetime.now(UTC)


# -- platform --------------------------------------------------------------------------


@contextmanager
def revoke(world: World, _case: Case) -> Iterator[None]:
    """Take a grant from all processes, and give it back."""
    happening = world.note("revoke", "grant")
    execute(world.engine, sa.text(f"REVOKE UPDATE ON operations FROM {ROLE}"))
    try:
        yield
    finally:
        execute(world.engine, sa.text(f"GRANT UPDATE ON operations TO {ROLE}"))
        happening.ended_at = datetime.now(UTC)


@contextmanager
def fill_disk(world: World, case: Case) -> Iterator[None]:
    """Leave no room in the workspace, while new data is to be kept."""
    if not world.space.enter:
        case.leave_out("no file system can be made here")
        yield
        return
    world.space.fill()
    try:
        for app in world.uids:
            with find_source(world.installation.folder, app).open("a") as source:
                source.write("2026-01-02,2\n")
            case.must_end += world.run(DATA, app=app)
        case.expect_doctor(world.ask_doctor, _FULL)
        yield
    finally:
        world.space.free()


@contextmanager
def set_clock(
    world: World, case: Case, *, by: timedelta, named: str | None = None
) -> Iterator[None]:
    """Let the database live at another time for a while, and come back."""
    if world.clock is None:
        case.leave_out("it needs Debian's libfaketime")
        yield
        return
    # Or the time of tasks that are waited for would be over by the leap, rightly.
    world.wait(lambda: not world.count_live([*world.asked]), what="what was asked for")
    case.must_end += world.ask_for(SEND, 5)
    case.start()
    happening = world.note(f"{by.total_seconds():+.0f} s", "clock")
    world.clock.set(by)
    try:
        case.must_end += world.ask_for(SEND, 1)
        world.wait(lambda: not world.count_live(case.must_end), what="runs asked for")
        case.notes.append(f"all asked for ended after {case.age_s:.0f} s")
        if named is not None:
            case.expect_doctor(world.ask_doctor, named)
        world.pause(_CLOCK_S - case.age_s)
        yield
    finally:
        world.clock.set(timedelta(0))
        now = happening.ended_at = datetime.now(UTC)
        # By its own clock, too, which what was recorded meanwhile has; and minutes that
        # it left out as it leapt.
        there = world.note("then", "clock")
        there.begun_at = happening.begun_at + min(by, timedelta(0))
        there.ended_at = now + by


# -- all at once -----------------------------------------------------------------------

Recoveries = dict[str, tuple[float, Callable[[], None]]]


@contextmanager
def storm(world: World, case: Case, *, lasts_s: float) -> Iterator[None]:
    """Kill, freeze, stop, empty and poison at random, some of it at the same time."""
    rng, due = world.rng, Recoveries()
    app = make_app(world.installation.settings)
    world.mails.deadly_every = DEADLY_EVERY
    try:
        while case.age_s < lasts_s:
            _recover(due, time.monotonic())
            if len(due) < MOST_AT_ONCE:
                victim = rng.choice(world.whole)
                due[victim.name] = _hurt(world, victim)
            if rng.random() < 0.2:
                envelope = make_envelope(app, uuid4())
                form = rng.choice([*FORMS.values()])
                texts = [form(envelope).encode(), mutate(rng, envelope)]
                push(world, texts, [Queue.QUICK])
            world.pause(rng.uniform(*PAUSE_S))
    finally:
        world.mails.deadly_every = None
        _recover(due, float("inf"))
    yield


def _recover(due: Recoveries, now: float) -> None:
    for name, (at, recover) in list(due.items()):
        if at <= now:
            recover()
            del due[name]


def _hurt(world: World, victim: Victim) -> tuple[float, Callable[[], None]]:
    """Do something to *victim*; return when it ends, and what ends it."""
    rng = world.rng
    what = rng.choice(["kill", "kill", "freeze", "freeze", "stop"])
    lasts_s = rng.uniform(*DOWN_S)
    if what == "freeze":
        world.freeze(victim)
        lasts_s = rng.uniform(*FROZEN_S)
    elif what == "stop" and victim.name in {each.name for each in world.processes}:
        world.ask(victim, rng.choice([signal.SIGTERM, signal.SIGQUIT]))
    else:
        if victim.name == world.broker.name:
            fill(world)
        if victim.url.startswith("redis:") and rng.random() < 0.5:
            empty(world, victim)
        world.kill(victim)

    def recover() -> None:
        if what == "stop":
            victim.kill()  # however long its orderly end takes
        world.start(victim)

    return time.monotonic() + lasts_s, recover


_HOUR, _AHEAD = timedelta(hours=1), timedelta(minutes=3)
_SET_BACK = r"(?i)^(bad|look) .*clock.*set back"
_BROKER = r"^bad (broker|sending)"
_FULL = r"(?i)^(bad|look) .*(is full|a file that large|no space|refreshes wait)"


def _break_mail(mood: Mood, named: str) -> Fault:
    hurt = partial(break_mail, mood=mood)
    return Fault(f"smtp-{mood.name.lower()}", hurt, 20, named, None)


def _take(called: str, victim: str, *options: object, freezes: bool = False) -> Fault:
    hurt = partial(take, name=victim, freezes=freezes)
    return Fault(called, hurt, *options)  # type: ignore[arg-type]


FAULTS: Sequence[Fault] = (
    Fault("leader", partial(take_leader, freezes=False)),
    Fault("leader-hangs", partial(take_leader, freezes=True)),
    Fault("deploy", deploy),
    _take("heavy-worker", "heavy", 0, r"^bad queue heavy: no worker"),
    Fault("their-worker", kill_theirs),
    _take("their-redis", "their Redis", 15, None, (TASK, 10)),
    _take("their-redis-hangs", "their Redis", 20, None, (TASK, 50), freezes=True),
    _break_mail(Mood.REFUSES, "^bad mail: .*refused"),
    _break_mail(Mood.DEFERS, "^bad mail: .*451"),
    _break_mail(Mood.DROPS, "^(bad|look) .*uncertain"),
    _break_mail(Mood.HANGS, "^bad mail: .*timed out"),
    Fault("flushall", flush, 2),
    Fault("restarts", restart_redis),
    Fault("poison", poison, 0, r"(?i)^(bad|look) .*aside"),
    _take("redis", "Redis", 30, _BROKER),
    _take("redis-hangs", "Redis", 20, _BROKER, freezes=True),
    Fault("grants", revoke, 15, r"^bad .*\bUPDATE\b.*\boperations\b"),
    Fault("disk", fill_disk, asks=None),
    _take("pooler", "PgBouncer", 15),
    Fault("clock-back", partial(set_clock, by=-_HOUR, named=_SET_BACK), asks=None),
    Fault("clock-ahead", partial(set_clock, by=_AHEAD), asks=None),
    _take("postgres", "PostgreSQL", 60, r"(?i)^bad .*database", None),
)

STORM_S = 30.0


def make_storm(lasts_s: float = STORM_S) -> Fault:
    """Return the storm, of so many seconds."""
    return Fault("storm", partial(storm, lasts_s=lasts_s), asks=None)
