"""
Schedulers that share the small apps, and what must hold whatever befalls them.

Who leads is tried in leases.py; what is due, decided, recorded, claimed and rescued is
so by the product's own functions.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from unittest.mock import patch
from uuid import UUID

import sqlalchemy as sa

import operations.claiming.claim
from actions.decide import decide_time
from actions.due_rows import ask_advance, fetch_due
from actions.occurrences import parse_timing
from actions.posting.post import post_action
from actions.posting.revisions import change_action
from actions.when.searching import find_occurrences
from models.database.engine import UtcDateTime, db_now, read_clock, reading, writing
from models.database.tables import leases, scheduled_actions, small_apps
from models.database.tables import operations as runs
from models.database.transaction import AtOnce
from models.decision import Decision
from models.door.documents import read_action_object
from models.occurrence import LOOKBACK
from models.operation_state import FINAL_STATES, OperationState
from models.revision import Change
from operations.claiming.claim import claim_operation, finish
from operations.record import ask_record
from operations.rescue import reclaim_lost_workers
from tests.buckets.leases import BUCKETS, BucketLeases, find_bucket
from tests.simulation.database import SimulatedDatabase, get_database
from tests.simulation.faults import Place
from tests.simulation.invariants import InvariantError
from tests.simulation.seeds import quiet

APPS = tuple(f"app-{number}" for number in range(12))
GROUPS = 2  # of buckets, each with a broker of its own

START = datetime(2026, 3, 2, 9, tzinfo=UTC)

#: With faults, and then without, until all must be settled.
TROUBLED, QUIET = timedelta(minutes=15), timedelta(minutes=12)

_URL = "https://example.com/hook"

_RULES: tuple[dict[str, object], ...] = (
    {"when": {"cron_rule": "* * * * *"}},
    {"when": {"every": "PT3M"}, "overlap": "queue", "catch_up": {"runs": "all"}},
    {"when": {"calendar": "*-*-* *:0/7:00"}, "catch_up": {"runs": "latest"}},
    {"when": {"cron_rule": "*/2 * * * *"}, "overlap": "skip"},
)


_DUE = (
    sa.select(scheduled_actions.c.uid)
    .where(
        scheduled_actions.c.app.in_(sa.bindparam("apps", expanding=True)),
        scheduled_actions.c.next_due_at <= sa.bindparam("now", type_=UtcDateTime),
    )
    .order_by(scheduled_actions.c.next_due_at, scheduled_actions.c.uid)
)
_WAITING = (
    sa.select(runs.c.id, runs.c.app)
    .where(
        runs.c.app.in_(sa.bindparam("apps", expanding=True)),
        runs.c.state == OperationState.PENDING,
        runs.c.send_at <= db_now(),
    )
    .order_by(runs.c.recorded_at, runs.c.id)
)


@dataclass(frozen=True, slots=True)
class Troubles:
    """The chance of each fault, in a thousandth of a step of whom it strikes."""

    crash: int = 8
    freeze: int = 8
    stop: int = 4
    answer_lost: int = 8
    edit: int = 15
    database_away: int = 1
    clock_leaps: int = 1
    broker_away: int = 2


#: Schedulers come and go as they do in a deployment; nothing fails.
CALM = Troubles(
    **dict.fromkeys(
        (
            *("crash", "freeze", "answer_lost", "database_away"),
            *("clock_leaps", "broker_away"),
        ),
        0,
    )
)


@dataclass
class _Actor:
    """A scheduler or a worker; *steps* yields how many seconds to its next step."""

    name: str
    begin: Callable[[], Iterator[float]]
    steps: Iterator[float]
    wakes_at: datetime = START


class _AwayError(Exception):
    """The database cannot be reached, or its answer to a commit was lost."""


@dataclass
class BucketWorld:
    """Schedulers, workers, brokers and a database, from one seed."""

    seed: int
    troubles: Troubles = field(default_factory=Troubles)
    say: Callable[[str], None] = lambda _line: None
    now: datetime = START
    figures: Counter[str] = field(default_factory=Counter)
    _leap: timedelta = timedelta()
    _away_until: datetime = START
    _brokers_away_until: dict[int, datetime] = field(default_factory=dict)
    _is_answer_lost: bool = False
    _ids: int = 0
    _fences: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Draw nothing yet."""
        self.random = Random(self.seed)
        self.brokers: dict[int, deque[UUID]] = defaultdict(deque)
        self.database: SimulatedDatabase = get_database()
        self.engine = self.database.engine

    def run(self) -> Counter[str]:
        """
        Live until all is settled.

        Raises:
            InvariantError: A decision was lost, or made twice.
        """
        self.database.enter(self)
        try:
            with (
                quiet(),
                patch.object(operations.claiming.claim, "uuid4", self._make_id),
            ):
                self._set_up()
                actors = [
                    *(self._begin(f"scheduler-{n}", self._schedule) for n in range(4)),
                    *(self._begin(f"worker-{n}", self._work) for n in range(2)),
                ]
                self._live(actors, until=START + TROUBLED)
                self.troubles = Troubles(**dict.fromkeys(Troubles.__slots__, 0))
                for actor in actors:  # whoever is frozen goes on soon
                    soon = self.now + timedelta(seconds=5)
                    actor.wakes_at = min(actor.wakes_at, soon)
                self._live(actors, until=self.now + QUIET)
                for _patience in range(6):  # a long line needs its time
                    if self._find_waiting() is None:
                        break
                    self._live(actors, until=self.now + QUIET)
                self._check_end()
        finally:
            self.database.leave()
        return self.figures

    # what the simulated database asks

    def database_clock(self) -> datetime:
        """Return the database's time, which may have leapt."""
        return self.now + self._leap

    def at_database(self, place: Place, _statement: str = "") -> None:
        """Fail while the database is away, or lose the answer to a commit."""
        if place is Place.BEFORE_TRANSACTION and self.now < self._away_until:
            raise _AwayError
        if place is Place.AFTER_COMMIT and self._is_answer_lost:
            self._is_answer_lost = False
            raise _AwayError

    def committed(self) -> None:
        """Judge what a commit has changed."""
        for row in self.database.take_log():
            _number, what, id_, *values = row[:11]
            if what == "lease":
                self._judge_lease(id_, values)
            elif what == "recorded":
                self._judge_recorded(id_, values)
            elif what == "operation" and values[2] and values[3]:
                # One lease may follow another only through a rescue.
                _insist(values[2] == values[3], f"{id_} was claimed while it ran")

    # what lives

    def _live(self, actors: list[_Actor], *, until: datetime) -> None:
        while True:
            actor = min(actors, key=lambda each: (each.wakes_at, each.name))
            if actor.wakes_at >= until:
                self.now = until
                return
            self.now = max(self.now, actor.wakes_at)
            self._strike_all()
            self._step(actor)

    def _step(self, actor: _Actor) -> None:
        is_answer_lost = self._draws(self.troubles.answer_lost, "answer lost")
        self._is_answer_lost = is_answer_lost
        try:
            pause = next(actor.steps)
        except _AwayError:
            pause = self.random.uniform(1, 5)
            actor.steps = actor.begin()  # as a process that begins again
        self._is_answer_lost = False
        if self._draws(self.troubles.crash, "crash"):
            self.say(f"{actor.name} is killed")
            actor.steps = actor.begin()
            pause = self.random.uniform(1, 120)
        elif self._draws(self.troubles.freeze, "freeze"):
            self.say(f"{actor.name} is frozen")
            pause = self.random.uniform(3, 400)
        actor.wakes_at = self.now + timedelta(seconds=pause)

    def _strike_all(self) -> None:
        if self._draws(self.troubles.database_away, "database away"):
            away = timedelta(seconds=self.random.uniform(5, 500))
            self._away_until = self.now + away
        if self._draws(self.troubles.clock_leaps, "clock leaps"):
            self._leap += timedelta(seconds=self.random.uniform(30, 900))
        if self._draws(self.troubles.broker_away, "broker away"):
            away = timedelta(seconds=self.random.uniform(5, 200))
            group = self.random.randrange(GROUPS)
            self._brokers_away_until[group] = self.now + away

    def _begin(self, name: str, live: Callable[[str], Iterator[float]]) -> _Actor:
        def begin() -> Iterator[float]:
            return live(name)

        return _Actor(name, begin, begin())

    def _schedule(self, name: str) -> Iterator[float]:
        """Lead the buckets that are ours, tick by tick; sometimes stop, and return."""
        held = BucketLeases(self.engine, name, self._make_id())
        while True:
            held.hold()
            yield self.random.uniform(0, 0.2)
            yield from self._tick(held)
            if self._draws(self.troubles.stop, "stop"):
                held.stop()
                self.say(f"{name} stops")
                yield self.random.uniform(1, 300)
                held = BucketLeases(self.engine, name, self._make_id())
            yield self.random.uniform(3, 12)

    def _tick(self, held: BucketLeases) -> Iterator[float]:
        """Decide what is due in our buckets, record it under their fences, and send."""
        fences = dict(held.fences)
        decisions = self._decide(fences)
        if decisions:
            yield self.random.uniform(0, 0.2)
            if self._draws(self.troubles.edit, "edit"):
                self._edit()
            self._record(held, fences, decisions)
            yield self.random.uniform(0, 0.2)
        if decisions or self.random.randrange(4) == 0:
            self._send(held.fences)

    def _decide(self, buckets: Collection[int]) -> list[Decision]:
        with reading(self.engine) as connection:
            now = read_clock(connection)
            asked = {"apps": _find_apps(buckets), "now": now}
            uids = connection.scalars(_DUE, asked).all()
            due = fetch_due(connection, uids, now=now) if uids else []
        return [decide_time(each, now=now, lookback=LOOKBACK, memo={}) for each in due]

    def _record(
        self, held: BucketLeases, fences: dict[int, int], decisions: Sequence[Decision]
    ) -> None:
        """Record what was decided, as the dispatcher does, where we still lead."""
        with writing(self.engine) as connection:
            led = held.check(connection, fences)
            self.figures["refused by the fence"] += len(fences) - len(led)
            for bucket, fence in sorted(led.items()):
                ours = [
                    each
                    for each in decisions
                    if find_bucket(_get_app(each.action_uid)) == bucket
                ]
                transaction = AtOnce(connection)
                moved = ask_advance(transaction, ours)()
                new = [
                    operation
                    for decision in ours
                    if decision.action_uid in moved
                    for operation in decision.operations
                ]
                ask_record(transaction, new, fence=fence)()
            if self.random.randrange(3) == 0:
                reclaim_lost_workers(connection)

    def _send(self, buckets: Collection[int]) -> None:
        """Send what waits in *buckets*, under its ids: also what a crash left there."""
        with reading(self.engine) as connection:
            waiting = connection.execute(_WAITING, {"apps": _find_apps(buckets)}).all()
        for id_, app in waiting:
            group = find_bucket(app) % GROUPS
            if self.now >= self._brokers_away_until.get(group, START):
                broker = self.brokers[group]
                if id_ not in broker:
                    broker.append(id_)

    def _work(self, name: str) -> Iterator[float]:
        """Take messages of any broker, and run what they name if the claim is won."""
        while True:
            yield self.random.uniform(0.2, 1)
            full = [each for each in sorted(self.brokers) if self.brokers[each]]
            if not full:
                continue
            id_ = self.brokers[self.random.choice(full)].popleft()
            claim = claim_operation(self.engine, id_, worker=name)
            if claim is None:
                continue
            self.figures["claims"] += 1
            yield self.random.uniform(0, 5)
            with writing(self.engine) as connection:
                finish(connection, claim, OperationState.SUCCEEDED)

    # what is judged

    def _judge_lease(self, name: str, values: Sequence[object]) -> None:
        _old, new, old_fence, fence, expires, _, _, _ = values
        assert isinstance(fence, int)
        assert isinstance(old_fence, int)
        if new is not None and new != _old and name.startswith("bucket"):
            clock = self.database_clock().isoformat(sep=" ")[:19]
            is_free = _old is None or str(expires).replace("T", " ")[:19] <= clock
            _insist(is_free, f"{name} was taken while its lease held")
            _insist(fence > old_fence, f"{name} moved under the same fence")
            self.figures["moves"] += 1
        self._fences[name] = fence

    def _judge_recorded(self, id_: str, values: Sequence[object]) -> None:
        action, fence = str(values[0]), values[5]
        bucket = find_bucket(_get_app(action))
        current = self._fences[f"bucket {bucket}"]
        _insist(fence == current, f"{id_} was recorded under {fence}, not {current}")
        self.figures["recorded"] += 1

    def _check_end(self) -> None:
        """Insist that every occurrence was decided once, and that all has run."""
        with reading(self.engine) as connection:
            kept = connection.execute(
                sa.select(
                    scheduled_actions.c.uid,
                    scheduled_actions.c.timing,
                    scheduled_actions.c.next_due_at,
                    scheduled_actions.c.effective_from,
                )
            ).all()
            rows = connection.execute(sa.select(runs).order_by(runs.c.id)).all()
            held = connection.execute(
                sa.select(leases).where(leases.c.name.startswith("bucket "))
            ).all()
        waiting = self._find_waiting()
        _insist(waiting is None, f"{waiting} is never final")
        for row in held:
            _insist(row.holder is not None, f"nobody leads {row.name}")
        decided: dict[str, Counter[datetime]] = defaultdict(Counter)
        ranges: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
        for row in rows:
            if row.details and "first" in row.details:
                ends = (row.details["first"], row.details["last"])
                first, last = (datetime.fromisoformat(each) for each in ends)
                ranges[row.action_uid].append((first, last))
                self.figures["ranges"] += 1
            else:
                decided[row.action_uid][row.occurrence] += 1
        for action in kept:
            late = self.database_clock() - action.next_due_at
            _insist(late < timedelta(minutes=1), f"{action.uid} is left behind")
            schedule = parse_timing(action.timing)
            for each in find_occurrences(
                schedule, action.effective_from, action.next_due_at
            ):
                inside = sum(a <= each <= b for a, b in ranges[action.uid])
                times = decided[action.uid][each] + inside
                _insist(times == 1, f"{action.uid} at {each}: decided {times} times")
                self.figures["occurrences"] += 1

    def _find_waiting(self) -> UUID | None:
        """Return an operation that should have ended by now."""
        with reading(self.engine) as connection:
            found: UUID | None = connection.scalar(
                sa.select(runs.c.id)
                .where(
                    runs.c.state.not_in(sorted(FINAL_STATES)),
                    runs.c.recorded_at <= db_now(-timedelta(minutes=8)),
                )
                .order_by(runs.c.id)
                .limit(1)
            )
        return found

    # what the world is made of

    def _set_up(self) -> None:
        with writing(self.engine) as connection:
            for app in APPS:
                connection.execute(sa.insert(small_apps).values(uid=app, name=app))
                rules = self.random.sample(_RULES, self.random.randint(1, 2))
                for number, rule in enumerate(rules):
                    uid = f"{app}.{number}"
                    steps = {"operations": {"call_webhook": {"url": _URL}}}
                    document = {"uid": uid, "name": uid, **steps, **rule}
                    post_action(connection, app, read_action_object(document))
            for bucket in range(BUCKETS):
                name = f"bucket {bucket}"
                connection.execute(
                    sa.insert(leases).values(name=name, fence=0, expires_at=db_now())
                )
        self.database.take_log()

    def _edit(self) -> None:
        """Change an action, as its admin would, between reading and recording."""
        uid = self.random.choice(APPS) + ".0"
        with writing(self.engine) as connection:
            change_action(connection, uid, Change.HOLIDAYS, by="an admin")

    def _draws(self, rate: int, what: str) -> bool:
        if not rate or self.random.randrange(1000) >= rate:
            return False
        self.figures[what] += 1
        return True

    def _make_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)


def _find_apps(buckets: Collection[int]) -> list[str]:
    return [app for app in APPS if find_bucket(app) in buckets]


def _get_app(action_uid: str) -> str:
    return action_uid.partition(".")[0]


def _insist(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise InvariantError(otherwise)
