"""
What tests of scheduling start from: an app, actions, operations, a broker in memory.

Time is moved by editing rows, never by sleeping: the databases have real clocks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.decide import ActionRevision
from actions.lease import Leader
from actions.posting.post import Posted, Posting, post_action
from actions.tick import Dispatched, TickReport, run_tick
from dispatch.dispatcher import Dispatcher
from dispatch.outbox import Outbox, Sender
from dispatch.task_outbox import Delivery, TaskOutbox
from models.database.engine import read_clock, reading, writing
from models.database.tables import (
    changes,
    deliveries,
    events,
    operation_log,
    operation_steps,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
    small_apps,
    users,
)
from models.decision import Decision, NewOperation
from models.door.documents import read_action_object
from models.errors import BrokerUnreachableError, StepError
from models.occurrence import LOOKBACK, make_operation_id
from models.operation_state import OperationState, Overlap, Queue, Trigger
from operations.claiming.claim import claim_operation
from operations.claiming.claimed import Claim
from operations.foreign_tasks import ForeignTask
from operations.list_operations import fetch_steps
from operations.ports import Ports
from operations.record import record
from operations.running.attempt import Attempt
from operations.sending.order import Message, fetch_sendable
from operations.sending.tasks import Ready
from overview.doctor.checks import LOOKS
from overview.doctor.finding import Finding, View
from overview.why.circumstances import fetch_circumstances
from overview.why.sentences import ALONE, tell_why
from scheduler_server import Scheduler
from settings import Settings, read_settings
from tests.database import execute, fetch_rows, read_by, write_by

#: A Monday, long past by the clocks of the databases, so all is due to be sent.
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = 60 * MINUTE, timedelta(days=1)

MINUTELY = {"cron_rule": "* * * * *"}

#: Of what runs by hand alone, whatever the time of day is at which a test runs.
SELDOM = {"cron_rule": "0 0 29 2 *"}

#: A step that needs nothing but a worker.
TASK = {"run_task": {"name": "tests.nothing"}}
REFRESH = {"refresh": True}


def at(clock: str, day: datetime = MONDAY) -> datetime:
    """Return the instant that a clock in UTC shows on *day*, as in ``07:00[:30]``."""
    hours, minutes, *seconds = (int(part) for part in clock.split(":"))
    return day + timedelta(
        hours=hours, minutes=minutes, seconds=seconds[0] if seconds else 0
    )


def add_app(engine: sa.Engine, uid: str = "app", ids: Iterable[str] = ()) -> None:
    """Add a small app with these users, active and activated."""
    with writing(engine) as connection:
        connection.execute(sa.insert(small_apps).values(uid=uid, name=uid))
        for user_id in ids:
            connection.execute(
                sa.insert(users).values(
                    app=uid,
                    id=user_id,
                    email=f"{user_id}@example.org",
                    activated_at=MONDAY,
                )
            )


def make_document(**changes: Any) -> dict[str, Any]:
    """Return the JSON of an action at 07:00 UTC, with *changes*."""
    return {
        "name": "daily",
        "operations": TASK,
        "when": {"cron_rule": "0 7 * * *"},
        **changes,
    }


def post(
    engine: sa.Engine, app: str = "app", *, replace_it: bool = False, **changes: Any
) -> Posted:
    """Post ``make_document(**changes)`` by the database's clock."""
    action = read_action_object(make_document(**changes))
    return write_by(engine, post_action, app, action, Posting(replace_it))


def post_at(
    engine: sa.Engine, since: datetime = MONDAY, app: str = "app", **changes: Any
) -> str:
    """Post an action as if it was done at *since*; return its uid."""
    uid = post(engine, app, **changes).uid
    edit_action(engine, uid, effective_from=since, next_due_at=since, created_at=since)
    return uid


def edit_action(engine: sa.Engine, uid: str, **values: Any) -> None:
    """Write *values* into the row of an action, behind everybody's back."""
    execute(
        engine,
        sa.update(scheduled_actions)
        .where(scheduled_actions.c.uid == uid)
        .values(**values),
    )


def copy_action(
    engine: sa.Engine,
    uid: str,
    count: int,
    *,
    app: str | None = None,
    prefix: str = "copy",
) -> list[str]:
    """Copy an action many times, to *app* if it is given; return the uids."""
    kept = scheduled_actions
    numbers = sa.select(sa.literal(0).label("n")).cte(recursive=True)
    following = sa.select(numbers.c.n + 1).where(numbers.c.n < count - 1)
    numbers = numbers.union_all(following)
    digits = sa.func.substr(sa.cast(numbers.c.n + 100_000, sa.Text), 2)
    name = sa.literal(prefix) + digits
    values: dict[str, Any] = {"uid": name, "name": name}
    if app is not None:
        values["app"] = sa.literal(app)
    copies = (
        sa.select(*(values.get(each.name, each) for each in kept.c))
        .select_from(kept.join(numbers, sa.true()))
        .where(kept.c.uid == uid)
    )
    execute(engine, sa.insert(kept).from_select([*kept.c.keys()], copies))
    return [f"{prefix}{number:05}" for number in range(count)]


def fetch_action(engine: sa.Engine, uid: str) -> sa.Row[Any]:
    """Return the row of an action."""
    return fetch_rows(
        engine, sa.select(scheduled_actions).where(scheduled_actions.c.uid == uid)
    ).one()


def make_operation(
    number: int = 0, *, action_uid: str = "daily", **changes: Any
) -> NewOperation:
    """Return the operation of the occurrence *number* minutes after MONDAY."""
    occurrence = MONDAY + number * MINUTE
    made = NewOperation(
        id=make_operation_id(action_uid, occurrence, changes.get("user_id")),
        action_uid=action_uid,
        action_revision=1,
        app="app",
        trigger=Trigger.SCHEDULE,
        triggered_by='Scheduled action "daily"',
        occurrence=occurrence,
        queue=Queue.QUICK,
        overlap=Overlap.ALLOW,
    )
    return made._replace(**changes)


def record_all(engine: sa.Engine, *new: NewOperation) -> list[UUID]:
    """Record *new* in a transaction of their own."""
    return list(write_by(engine, record, new))


def add_revision(engine: sa.Engine, uid: str = "daily", **changes: Any) -> None:
    """Add what a claim joins: an action and its first revision, never due."""
    add_app(engine)
    post(engine, uid=uid, **changes)
    edit_action(engine, uid, next_due_at=None)


def add_runs(engine: sa.Engine, *new: NewOperation, **changes: Any) -> None:
    """Add an action, as `add_revision` does, and operations that wait to run."""
    add_revision(engine, **changes)
    record_all(engine, *new)


def edit(engine: sa.Engine, operation_id: UUID, **values: Any) -> None:
    """Write *values* into the row of an operation, behind everybody's back."""
    with writing(engine) as connection:
        done = connection.execute(
            sa.update(operations)
            .where(operations.c.id == operation_id)
            .values(**values)
        )
    assert done.rowcount == 1


#: By what the recording decides whether an operation runs, and under which id.
_DECIDED = ("app", "action_uid", "id", "user_id", "queue", "overlap")


def put(engine: sa.Engine, number: int = 0, **values: Any) -> UUID:
    """Record the operation of that minute, with *values* in its row; return its id."""
    of = {name: values.pop(name) for name in _DECIDED if name in values}
    (made,) = record_all(engine, make_operation(number, **of))
    if values:
        edit(engine, made, **values)
    return made


def tell_missed(
    first: datetime, last: datetime | None = None, *, count: int = 1, more: bool = False
) -> dict[str, Any]:
    """Return what the row of *count* occurrences has that an outage missed."""
    ends = {"first": first.isoformat(), "last": (last or first).isoformat()}
    details = {**ends, "count": count, "more": more}
    return {"state": "missed", "reason": "outage", "details": details}


def add_steps(engine: sa.Engine, operation_id: UUID, *steps: dict[str, Any]) -> None:
    """Write the steps of an operation, in their order, behind everybody's back."""
    with writing(engine) as connection:
        for position, step in enumerate(steps):
            values = {"operation_id": operation_id, "position": position, **step}
            connection.execute(sa.insert(operation_steps).values(values))


def add_mails(
    engine: sa.Engine,
    operation_id: UUID,
    states: Mapping[str, str],
    *,
    step: str = "send_email",
    at: datetime = MONDAY,
    **values: Any,
) -> None:
    """Write what became, at *at*, of the mails of a step, by their recipients."""
    app = sa.select(operations.c.app).where(operations.c.id == operation_id)
    of = {"operation_id": operation_id, "step": step, "updated_at": at, **values}
    with writing(engine) as connection:
        of["app"] = connection.scalar(app)
        rows = [{**of, "recipient": to, "state": state} for to, state in states.items()]
        connection.execute(sa.insert(deliveries), rows)


def add_log(
    engine: sa.Engine, operation_id: UUID, texts: Iterable[str], *, first: int = 1
) -> None:
    """Write lines of the log of an operation, numbered from *first* on."""
    of = {"operation_id": operation_id, "at": MONDAY, "attempt": 1, "level": "info"}
    lines = [
        {**of, "step": "send_email", "number": number, "text": text}
        for number, text in enumerate(texts, first)
    ]
    execute(engine, sa.insert(operation_log), lines)


def get(engine: sa.Engine, operation_id: UUID) -> sa.Row[Any]:
    """Return the row of an operation."""
    return fetch_rows(
        engine, sa.select(operations).where(operations.c.id == operation_id)
    ).one()


def get_steps(engine: sa.Engine, operation_id: UUID) -> list[sa.Row[Any]]:
    """Return the rows of the steps of an operation, in their order."""
    return read_by(engine, fetch_steps, [operation_id]).get(operation_id, [])


def must_claim(
    engine: sa.Engine, operation_id: UUID, *, worker: str = "w", **how: Any
) -> Claim:
    """Claim an operation, which nothing is in the way of."""
    claim = claim_operation(engine, operation_id, worker=worker, **how)
    assert claim is not None
    return claim


def expire(engine: sa.Engine, operation_id: UUID) -> None:
    """Let the lease of its worker run out, as if that had died a minute ago."""
    edit(engine, operation_id, lease_expires_at=get_now(engine) - SECOND)


def run_attempt(
    engine: sa.Engine, operation_id: UUID, ports: Ports, **how: Any
) -> OperationState | None:
    """Let a worker take an operation, which nothing is in the way of, and run it."""
    return Attempt(engine, must_claim(engine, operation_id), ports, **how).run()


def find_sendable(engine: sa.Engine) -> list[UUID]:
    """Return the operations that are to be sent now, in their order."""
    return [each.id for each in read_by(engine, fetch_sendable, limit=100)]


def fetch_noted(engine: sa.Engine, kind: str) -> list[sa.Row[Any]]:
    """Return the changes of that kind that were noted, in their order."""
    query = sa.select(changes).where(changes.c.kind == kind)
    return list(fetch_rows(engine, query.order_by(changes.c.number)))


def fetch_all(engine: sa.Engine) -> list[sa.Row[Any]]:
    """Return every operation, by occurrence."""
    return list(
        fetch_rows(
            engine,
            sa.select(operations).order_by(
                operations.c.occurrence, operations.c.user_id, operations.c.id
            ),
        )
    )


def count_states(engine: sa.Engine) -> dict[str, int]:
    """Return how many operations are in each state."""
    statement = sa.select(operations.c.state, sa.func.count().label("found")).group_by(
        operations.c.state
    )
    return {row.state: row.found for row in fetch_rows(engine, statement)}


def get_now(engine: sa.Engine) -> datetime:
    """Return the database's clock."""
    return read_by(engine, read_clock)


def find_far_hour(engine: sa.Engine) -> int:
    """
    Return an hour of UTC that is hours away, as is the hour after it.

    A daily rule that moves from the one to the other moves the same runs at any time of
    the day; between 07:00 and 08:00, one from 7 to 8 has a run more today.
    """
    return 18 if get_now(engine).hour < 12 else 6


def count_revisions(engine: sa.Engine, uid: str) -> int:
    """Return how many revisions of an action there are."""
    return fetch_rows(
        engine,
        sa.select(sa.func.count()).where(scheduled_action_revisions.c.uid == uid),
    ).scalar_one()


@dataclass
class FakeSender:
    """
    A broker in memory.

    Args:
        error: Raised by ``send`` before anything is taken.
        error_after: Raised after all was taken: "unknown" to the caller.
        empty: What ``find_empty_queues`` answers.
    """

    error: Exception | None = None
    error_after: Exception | None = None
    empty: set[Queue] = field(default_factory=set)
    batches: list[list[Message]] = field(default_factory=list)
    attempts: int = 0

    @property
    def ids(self) -> list[UUID]:
        """The ids taken, in order."""
        return [message.id for batch in self.batches for message in batch]

    def send(self, messages: Sequence[Message]) -> None:
        """Take *messages*."""
        self.attempts += 1
        if self.error is not None:
            raise self.error
        self.batches.append(list(messages))
        if self.error_after is not None:
            raise self.error_after

    def find_empty_queues(self) -> set[Queue]:
        """Answer as told."""
        if self.error is not None:
            self.attempts += 1
            raise self.error
        return self.empty


BROKER_DOWN = BrokerUnreachableError("the broker is down")


class Clock:
    """A monotonic clock that stands still until told."""

    now = 1000.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now


@dataclass
class FakeCouriers:
    """Deliver what they are told to."""

    error: str | None = None
    refusal: str | None = None
    refused: str | None = None
    held: str | None = None
    forbidden: str | None = None
    is_late: bool = False
    unknown: tuple[str | None, ...] = ()
    clock: Clock = field(default_factory=Clock)
    sent: list[ForeignTask] = field(default_factory=list)
    late: list[Delivery] = field(default_factory=list)
    done: list[Delivery] = field(default_factory=list)

    def knows(self, connection: str | None) -> bool:
        """Tell whether it is not unknown."""
        return connection not in self.unknown

    def place(self, task: ForeignTask) -> ForeignTask:
        """Return *task* with its queue."""
        if self.forbidden is not None:
            raise StepError(self.forbidden, permanent=True)
        return task._replace(queue=task.queue or "default")

    def take(self, connection: str | None, batch: Sequence[Ready]) -> str | None:
        """Take *batch*, unless there is a refusal."""
        del connection
        if self.refusal is not None:
            return self.refusal
        refused = {} if self.refused is None else {batch[0].task.id: self.refused}
        held = {} if self.held is None else {batch[0].task.id: self.held}
        delivery = Delivery(batch, self.clock(), refused, held, self.error)
        self.sent += [each.task for each in batch]
        (self.late if self.is_late else self.done).append(delivery)
        return None

    def settle(self) -> None:
        """Have delivered already, or be late."""

    def deliver(self) -> None:
        """Deliver what is late."""
        self.done, self.late = [*self.done, *self.late], []

    def collect(self) -> Sequence[Delivery]:
        """Return what was delivered."""
        done, self.done = self.done, []
        return done


class NoTasks(TaskOutbox):
    """Leaves the tasks of users' own to workers, and reads nothing of them."""

    def __init__(self, engine: sa.Engine) -> None:
        """Have couriers who are given nothing."""
        super().__init__(engine, FakeCouriers())

    def learn_ahead(self) -> int:
        """Learn nothing."""
        return 0

    def hand_over(self, messages: Sequence[Message]) -> tuple[int, list[Message]]:
        """Leave all of *messages*."""
        return 0, list(messages)


def lead(engine: sa.Engine, **how: Any) -> Leader:
    """Return a leader that leads."""
    leader = Leader(engine, **how)
    assert leader.hold()
    return leader


def make_outbox(engine: sa.Engine, sender: Sender, **options: Any) -> Outbox:
    """Return an outbox that leaves tasks to workers."""
    return Outbox(sender, NoTasks(engine), 500, **options)


def make_dispatcher(
    engine: sa.Engine,
    sender: FakeSender | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    **options: Any,
) -> Dispatcher:
    """Return a dispatcher that leads, for as long as *clock* stands still."""
    outbox = make_outbox(engine, sender or FakeSender(), **options)
    return Dispatcher(engine, lead(engine, monotonic=clock), outbox)


def tick(
    dispatcher: Dispatcher,
    now: datetime,
    *,
    lookback: timedelta = LOOKBACK,
    meanwhile: Callable[[], object] = lambda: None,
) -> TickReport:
    """Run one tick at *now*; *meanwhile* is called when it has decided."""
    return run_tick(
        now,
        engine=dispatcher.engine,
        dispatcher=Hooked(
            dispatcher, before_dispatch=meanwhile, before_launch=meanwhile
        ),
        lookback=lookback,
    )


def _do_nothing() -> None:
    """Do nothing."""


@dataclass
class Hooked:
    """
    A dispatcher with which something happens around its writing.

    Args:
        before_dispatch: Called before decisions are dispatched without a flight.
        before_launch: Called before each launch.
        in_flight: Called after each launch, while the chunk flies.
        before_land: Called before each landing.
    """

    real: Dispatcher
    before_dispatch: Callable[[], object] = _do_nothing
    before_launch: Callable[[], object] = _do_nothing
    in_flight: Callable[[], object] = _do_nothing
    before_land: Callable[[], object] = _do_nothing
    launches: int = 0

    def dispatch(self, decisions: Sequence[Decision]) -> Dispatched:
        """Dispatch, which is no flight."""
        self.before_dispatch()
        return self.real.dispatch(decisions)

    def quarantine(self, action: ActionRevision, reason: str) -> None:
        """Put into quarantine."""
        self.real.quarantine(action, reason)

    def launch(
        self, decisions: Sequence[Decision], *, land: Callable[[], None]
    ) -> None:
        """Launch between the two."""
        self.before_launch()
        self.real.launch(decisions, land=land)
        self.launches += 1
        self.in_flight()

    def hand_over(self) -> None:
        """Hand over."""
        self.real.hand_over()

    def land(self) -> Dispatched:
        """Land, after what happens."""
        self.before_land()
        return self.real.land()

    def finish(self) -> int:
        """Finish."""
        return self.real.finish()


def make_settings(**given: str) -> Settings:
    """Return settings; *given* are variables, by their names without MINUTEHAND_."""
    variables = {f"MINUTEHAND_{name}": value for name, value in given.items()}
    return read_settings(variables, env_file=None)


def make_scheduler(
    engine: sa.Engine,
    sender: Sender | None = None,
    clock: Clock | None = None,
    **options: str,
) -> Scheduler:
    """Return a scheduler that has not led yet, with these settings."""
    given = {"LEASE_HEARTBEAT": "PT20S", **options}
    return Scheduler(
        engine,
        Leader(engine),
        sender or FakeSender(),
        NoTasks(engine),
        make_settings(**given),
        monotonic=clock or Clock(),
    )


def backdate(engine: sa.Engine, uid: str, minutes: int = 0) -> datetime:
    """Make an action due *minutes* minutes ago, and since then."""
    now = get_now(engine)
    since = now.replace(second=0, microsecond=0) - minutes * MINUTE
    edit_action(engine, uid, next_due_at=since, effective_from=since)
    return since


def add_event(
    engine: sa.Engine,
    user_id: str,
    instant: datetime,
    *,
    recorded_at: datetime | None = None,
    name: str = "app.x",
) -> None:
    """Add an event as if it had been recorded when it happened."""
    execute(
        engine,
        sa.insert(events).values(
            id=UUID(int=random.getrandbits(128)),
            app="app",
            name=name,
            user_id=user_id,
            at=instant,
            recorded_at=recorded_at or instant,
        ),
    )


def say_why(connection: sa.Connection, operation_id: UUID) -> str:
    """Return why an operation did not run, or waits; "": there is nothing to say."""
    query = sa.select(operations).where(operations.c.id == operation_id)
    row, now = connection.execute(query).one(), read_clock(connection)
    known = fetch_circumstances(connection, [row], now=now)
    why = tell_why(row, known.get(operation_id, ALONE), now=now)
    return "" if why is None else why.text


def examine(
    engine: sa.Engine, name: str, *, app: str | None = None, **settings: str
) -> list[Finding]:
    """Return what doctor finds at *name*, with settings by the end of their names."""
    asked = make_settings(**settings)
    with reading(engine) as connection:
        view = View(connection, asked, read_clock(connection), app)
        return list(LOOKS[name](view))
