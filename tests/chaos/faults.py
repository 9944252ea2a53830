"""Random faults, the same for the same seed as far as processes allow."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

import redis
import sqlalchemy as sa

from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from dispatch.manual_runs import run_now
from models.database.engine import reading, writing
from models.database.tables import operations
from models.errors import ConflictError, UnreachableError
from models.operation_state import LIVE_STATES, OperationState, Queue, Reason
from operations.cancel_and_retry import cancel, reopen
from operations.sending.order import Message
from tests.chaos.installation import Installation
from tests.chaos.servers import Victim
from tests.chaos.world import World
from tests.neighbours.hostile import FORMS, QUICK, make_envelope, mutate

#: How many of all may be down or frozen at a time.
MOST_AT_ONCE = 3

#: Seconds: from shorter than a heartbeat to longer than every lease.
FROZEN_S = (0.3, 9.0)
DOWN_S = (0.0, 3.0)
PAUSE_S = (0.2, 1.5)

#: Messages that wait when Redis goes, so that workers are in the middle of taking.
WAITING = 1000


@dataclass
class Chaos:
    """
    Hurts a world, and lets it recover.

    Args:
        world: Which runs.

        seed: Of all choices.

        done: How often what was done.

        ended: Processes that ended though nobody asked or killed them, a sentence each.
    """

    world: World
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)
    _recoveries: dict[str, tuple[float, Callable[[], None]]] = field(
        default_factory=dict
    )

    def run(self, seconds: float) -> None:
        """Go on for *seconds*, then let everything recover."""
        rng = random.Random(self.seed)
        give_up_at = time.monotonic() + seconds
        while time.monotonic() < give_up_at:
            self.look_for_ended()
            self._recover(time.monotonic())
            if len(self._recoveries) < MOST_AT_ONCE:
                self._hurt(rng)
            for _ in range(rng.randint(1, 3)):
                self._use(rng)
            time.sleep(rng.uniform(*PAUSE_S))
        self.look_for_ended()
        self._recover(float("inf"))

    def look_for_ended(self) -> None:
        """Note what ended unasked, and start it again."""
        for process in self.world.processes:
            if process.name not in self._recoveries and not process.is_alive:
                self.ended.append(f"{process.name} ended unasked; see {process.log}")
                process.start()

    def _hurt(self, rng: random.Random) -> None:
        whole = [v for v in self.world.victims if v.name not in self._recoveries]
        victim = rng.choice(whole)
        fault = rng.choice(["kill", "kill", "freeze", "freeze", "stop"])
        if victim in self.world.servers and fault == "stop":
            fault = "kill"
        self.done[f"{fault} {victim.name.partition('-')[0]}"] += 1
        recover: Callable[[], None] = victim.start
        lasts_s = rng.uniform(*DOWN_S)
        if fault == "kill":
            if victim.url == self.world.installation.broker_url:
                fill(self.world.installation)
            victim.kill()
        elif fault == "freeze":
            victim.freeze()
            recover, lasts_s = victim.thaw, rng.uniform(*FROZEN_S)
        else:
            victim.ask(rng.choice([signal.SIGTERM, signal.SIGQUIT]))
            recover = _make_replacement(victim)
        self._recoveries[victim.name] = (time.monotonic() + lasts_s, recover)

    def _recover(self, now: float) -> None:
        for name, (due_at, recover) in list(self._recoveries.items()):
            if due_at <= now:
                recover()
                del self._recoveries[name]

    def _use(self, rng: random.Random) -> None:
        """Do what people do: run by hand, cancel, try again."""
        engine = self.world.installation.engine
        wish = rng.choice(["run"] * 6 + ["cancel", "retry", "poison"])
        if wish == "poison":
            spoil(self.world.installation, rng)
            self.done["poison"] += 1
            return
        uid = rng.choice(self.world.actions)
        # An answer that does not come says nothing about whether it was done.
        with suppress(UnreachableError, ConflictError):
            if wish == "run":
                run_now(engine, uid)
            else:
                self._interfere(rng, wish)
            self.done[f"{wish} by hand"] += 1

    def _interfere(self, rng: random.Random, wish: str) -> None:
        engine = self.world.installation.engine
        states = (
            LIVE_STATES
            if wish == "cancel"
            else {OperationState.FAILED, OperationState.CANCELED}
        )
        with reading(engine) as connection:
            found = connection.execute(
                sa.select(operations.c.id)
                .where(operations.c.state.in_(list(states)))
                .order_by(operations.c.id)
            ).scalars()
            ids = list(found)
        if ids:
            with writing(engine) as connection:
                if wish == "cancel":
                    cancel(connection, rng.choice(ids), reason=Reason.CANCELED)
                else:
                    reopen(connection, rng.choice(ids))


def _make_replacement(victim: Victim) -> Callable[[], None]:
    """Return what starts it again, however long its orderly stop takes."""

    def replace() -> None:
        victim.kill()
        victim.start()

    return replace


def spoil(installation: Installation, rng: random.Random) -> None:
    """Push what nobody can read onto the queue of quick operations."""
    settings = installation.settings
    envelope = make_envelope(make_app(settings), uuid4())
    form = rng.choice([*FORMS.values()])
    text = rng.choice([form(envelope).encode(), mutate(rng, envelope)])
    with (
        suppress(redis.RedisError),
        redis.Redis.from_url(settings.broker_url, socket_timeout=1) as client,
    ):
        client.lpush(QUICK, text)


def fill(installation: Installation, count: int = WAITING) -> None:
    """Let *count* messages wait, of operations that are nowhere."""
    settings = installation.settings
    sender = CelerySender(make_app(settings), timeout=settings.broker_timeout)
    new = [Message(uuid4(), Queue.QUICK, "chaos", 0) for _ in range(count)]
    with suppress(UnreachableError):
        sender.send(new)
    sender.close()
