"""Whatever is done to the store, both databases hold the same rows afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from models.database.engine import db_now, writing
from models.database.tables import operation_steps, operations
from models.database.transaction import AtOnce
from models.decision import NewOperation
from models.errors import CanceledError, ClaimLostError
from models.operation_state import (
    TRANSITIONS,
    OperationState,
    Overlap,
    Queue,
    StepState,
)
from operations.cancel_and_retry import cancel, reopen
from operations.claiming.claim import (
    claim_operation,
    finish,
    give_back,
    guard,
    renew,
    retry_later,
)
from operations.claiming.claimed import Claim
from operations.record import record
from operations.rescue import reclaim_lost_workers, resend_lost_messages
from operations.running.step_records import finish_step, prepare_steps, start_step
from operations.sending.order import fetch_sendable, mark_sent
from tests.database import write_by
from tests.scheduling import HOUR, add_revision, fetch_all, make_operation

STEPS = ("refresh", "publish")

#: What is compared: all but times, whose presence is compared, and tokens.
_COMPARED = ("id", "state", "reason", "error", "attempt", "attempts_allowed", "sends")
_PRESENT = ("sent_at", "started_at", "finished_at", "claim_token", "lease_expires_at")


@dataclass
class Store:
    """One database, and the claims that its workers believe to hold."""

    engine: sa.Engine
    claims: dict[int, Claim] = field(default_factory=dict)
    states: dict[UUID, OperationState] = field(default_factory=dict)

    def record(self, new: list[NewOperation]) -> object:
        """Record, and return what was new."""
        return sorted(write_by(self.engine, record, new))

    def send(self, limit: int) -> object:
        """Send what may be sent, in an order that no clock decides."""
        with writing(self.engine) as connection:
            connection.execute(
                sa.update(operations)
                .where(operations.c.state == "pending")
                .values(send_at=operations.c.occurrence)
            )
            messages = fetch_sendable(connection, limit=limit)
            mark_sent(AtOnce(connection), messages)
            return [m.id for m in messages]

    def claim(self, operation_id: UUID, number: int) -> object:
        """Claim, and return the attempt."""
        claim = claim_operation(self.engine, operation_id, worker="w")
        if claim is None:
            return None
        self.claims[number] = claim
        write_by(self.engine, prepare_steps, claim, STEPS)
        return claim.attempt

    def step(self, number: int, name: str, *, ended: bool) -> object:
        """Write a step under a claim, if it is still held."""
        claim = self.claims[number]
        try:
            with writing(self.engine) as connection:
                guard(connection, claim)
                if ended:
                    finish_step(connection, claim, name, StepState.SUCCEEDED)
                else:
                    start_step(connection, claim, name)
        except (CanceledError, ClaimLostError) as error:
            return type(error).__name__
        return "written"

    def leave(self, number: int, how: str) -> object:
        """End a claim in one of several ways, if it is still held."""
        claim = self.claims[number]
        if how == "give back":
            return give_back(self.engine, claim)
        if how == "renew":
            return len(renew(self.engine, {claim.token}))
        with writing(self.engine) as connection:
            if how == "retry":
                return retry_later(connection, claim, delay=HOUR, error="x")
            return finish(connection, claim, OperationState(how), reason="y")

    def expire(self, operation_id: UUID) -> object:
        """Let five hours pass for one operation."""
        with writing(self.engine) as connection:
            return connection.execute(
                sa.update(operations)
                .where(operations.c.id == operation_id)
                .values(
                    sent_at=sa.case(
                        (operations.c.sent_at.is_not(None), db_now(-5 * HOUR))
                    ),
                    lease_expires_at=sa.case(
                        (operations.c.lease_expires_at.is_not(None), db_now(-HOUR))
                    ),
                )
            ).rowcount

    def rescue(self, *empty: Queue) -> object:
        """Bring back what was lost."""
        with writing(self.engine) as connection:
            return (
                reclaim_lost_workers(connection),
                resend_lost_messages(connection, empty_queues=empty),
            )

    def decide(self, operation_id: UUID, how: str) -> object:
        """Cancel or reopen an operation."""
        with writing(self.engine) as connection:
            if how == "cancel":
                return cancel(connection, operation_id, reason="canceled")
            return reopen(connection, operation_id)

    def read(self) -> list[tuple[Any, ...]]:
        """Return what is compared, and check that every move was allowed."""
        rows = fetch_all(self.engine)
        for row in rows:
            old, new = self.states.get(row.id), OperationState(row.state)
            assert old == new or new in TRANSITIONS[old], (old, new)
            self.states[row.id] = new
        with writing(self.engine) as connection:
            steps = connection.execute(
                sa.select(
                    operation_steps.c.operation_id,
                    operation_steps.c.name,
                    operation_steps.c.state,
                    operation_steps.c.attempt,
                    operation_steps.c.finished_at.is_not(None),
                ).order_by(operation_steps.c.operation_id, operation_steps.c.position)
            )
            kept = sorted(tuple(step) for step in steps)
        compared = [
            (
                *(getattr(row, name) for name in _COMPARED),
                *(getattr(row, name) is not None for name in _PRESENT),
            )
            for row in rows
        ]
        return sorted(compared, key=lambda each: str(each[0])) + kept


def make_random(rng: random.Random, number: int) -> NewOperation:
    """Return an operation; no two of different actions have one occurrence."""
    return make_operation(
        number,
        action_uid=["daily", "weekly"][number % 2],
        app=["app", "other"][number % 3 % 2],
        queue=rng.choice([Queue.QUICK, Queue.HEAVY]),
        overlap=rng.choice(list(Overlap)),
        user_id=[None, None, "ann"][number % 3],
    )


#: What happens, as often as it stands here.
KINDS = (
    *("record", "send", "send", "claim", "claim", "claim", "step"),
    *("leave", "leave", "leave", "expire", "rescue", "decide"),
)


def make_calls(rng: random.Random, count: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield random calls of the store, as leaders and workers would make them."""
    recorded: list[UUID] = []
    for call in range(count):
        kind = rng.choice(KINDS)
        if kind == "record" or not recorded:
            made = [
                make_random(rng, n) for n in rng.sample(range(60), rng.randrange(4))
            ]
            made.sort(key=lambda each: each.occurrence)
            recorded += [m.id for m in made]
            yield "record", (made,)
        elif kind == "send":
            yield "send", (rng.choice([1, 3, 50]),)
        elif kind == "claim":
            yield "claim", (rng.choice(recorded[-12:]), call)
        elif kind == "step":
            yield "step", (rng.choice(STEPS), rng.random() < 0.5)
        elif kind == "leave":
            hows = ["give back", "renew", "retry", "succeeded", "failed"]
            yield "leave", (rng.choice(hows),)
        elif kind == "rescue":
            yield "rescue", tuple(q for q in Queue if rng.random() < 0.5)
        elif kind == "expire":
            yield "expire", (rng.choice(recorded),)
        else:
            yield "decide", (rng.choice(recorded), rng.choice(["cancel", "reopen"]))


@pytest.mark.parametrize("seed", range(3))
def test_the_same_calls_leave_the_same_rows(
    postgres_engine: sa.Engine, sqlite_engine: sa.Engine, seed: int
):
    """Each call answers the same on both, each move of a state is an allowed one."""
    stores = (Store(postgres_engine), Store(sqlite_engine))
    for store in stores:
        add_revision(store.engine)
    rng = random.Random(seed)
    for name, arguments in make_calls(rng, 120):
        if name in {"step", "leave"}:
            if not stores[0].claims:
                continue
            number = rng.choice(list(stores[0].claims))
            if name == "step":
                step, ended = arguments
                answers = [s.step(number, step, ended=ended) for s in stores]
            else:
                answers = [s.leave(number, *arguments) for s in stores]
        else:
            answers = [getattr(s, name)(*arguments) for s in stores]

        assert answers[0] == answers[1], (name, arguments)
        rows = [store.read() for store in stores]
        assert rows[0] == rows[1], (name, arguments)
