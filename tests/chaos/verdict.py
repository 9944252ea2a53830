"""Whether a world that was hurt kept what we promise."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.audit import audit_action
from actions.history import fetch_histories
from actions.leader import get_last_tick_at
from models.database import reading
from models.occurrence import str_to_uuid
from models.operation_state import FINAL_STATES, OperationState, StepState
from models.tables import deliveries, leases, operation_steps, operations
from operations.ports import DeliveryState
from tests.chaos.world import USERS, World

_STEP = "send_email"

Rows = Sequence[sa.Row[Any]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What is wrong, and what happened.

    Args:
        faults: None if every promise was kept; a sentence each.

        states: How many operations ended how.

        deliveries: How many mails ended how, by their marks.

        mails: How many arrived.

        leaders: How many times a scheduler began to lead.
    """

    faults: list[str]
    states: Counter[str]
    deliveries: Counter[str]
    mails: int
    leaders: int


def judge(world: World) -> Verdict:
    """Compare tables, rules and mails; nothing may run any more."""
    with reading(world.installation.engine) as connection:
        rows = connection.execute(sa.select(operations)).all()
        marks = connection.execute(sa.select(deliveries)).all()
        steps = connection.execute(sa.select(operation_steps)).all()
        leaders = connection.execute(sa.select(leases.c.fence)).scalar_one()
        faults = [
            *_audit(world, connection),
            *_judge_operations(rows, steps),
            *_judge_mails(world, rows, marks),
        ]
    return Verdict(
        faults=faults,
        states=Counter(row.state for row in rows),
        deliveries=Counter(mark.state for mark in marks),
        mails=len(world.mails.messages),
        leaders=leaders,
    )


def _audit(world: World, connection: sa.Connection) -> Iterator[str]:
    until = get_last_tick_at(connection)
    assert until is not None  # it has ticked
    engine = world.installation.engine
    histories = fetch_histories(engine, since=world.since, until=until)
    audited = 0
    for history in histories:
        if not history.is_of_time:
            continue
        audited += 1
        for finding in audit_action(
            history.uid,
            history.revisions,
            history.decided,
            since=world.since,
            until=until,
        ):
            yield f"audit: {finding}"
    if audited < len(world.actions):
        yield f"audit: only {audited} actions were audited"


def _judge_operations(rows: Rows, steps: Rows) -> Iterator[str]:
    final = {row.id: row for row in rows if row.state in FINAL_STATES}
    for row in rows:
        if row.id not in final:
            yield f"operation {row.id} is still {row.state}"
        elif row.state != OperationState.SUCCEEDED and not row.reason:
            yield f"operation {row.id} is {row.state} and nobody can say why"
        if row.attempt > row.attempts_allowed:
            yield f"operation {row.id} was tried {row.attempt} times"
    for step in steps:
        if step.operation_id not in final:
            continue
        row = final[step.operation_id]
        if step.state in {StepState.PENDING, StepState.RUNNING}:
            yield f"step {step.name} of {row.id} is {step.state}, and it is {row.state}"
        if row.state == OperationState.SUCCEEDED and step.state != StepState.SUCCEEDED:
            yield f"step {step.name} of {row.id} is {step.state}, and it succeeded"


def _judge_mails(
    world: World,
    rows: Rows,
    marks: Rows,
) -> Iterator[str]:
    arrived = Counter(str(mail["Message-ID"]).strip() for mail in world.mails.messages)
    for message_id, count in arrived.items():
        if count > 1:
            yield f"mail {message_id} arrived {count} times"
    known = set()
    marked: dict[UUID, set[str]] = defaultdict(set)
    for mark in marks:
        message_id = _make_message_id(mark.operation_id, mark.recipient)
        known.add(message_id)
        marked[mark.operation_id].add(mark.recipient)
        where = f"mail to {mark.recipient!r} of {mark.operation_id}"
        if mark.state == DeliveryState.SENT and arrived[message_id] != 1:
            yield f"{where} is marked as sent, and {arrived[message_id]} arrived"
        if mark.state == DeliveryState.FAILED and arrived[message_id]:
            yield f"{where} is marked as failed, and arrived"
        if mark.state == DeliveryState.SENDING:
            yield f"{where} is still said to be on its way"
    for message_id in arrived.keys() - known:
        yield f"mail {message_id} belongs to nothing"
    for row in rows:
        if row.state == OperationState.SUCCEEDED and marked.get(row.id):
            missing = set(USERS) - marked[row.id]
            if missing:
                yield f"operation {row.id} succeeded without mails to {missing}"


def _make_message_id(operation_id: UUID, user: str) -> str:
    """Return it by the documented rule, not by the code that sends."""
    return f"<{str_to_uuid(f'{operation_id} | {_STEP} | {user}')}@minutehand>"
