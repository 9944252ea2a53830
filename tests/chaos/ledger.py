"""Whether a world that was hurt kept what we promise."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email.message import EmailMessage
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.explaining.audit import audit_action
from actions.explaining.history import fetch_histories
from actions.leader import get_last_tick_at
from models.database.engine import reading
from models.database.tables import deliveries, leases, operation_steps, operations
from models.occurrence import str_to_uuid
from models.operation_state import (
    FINAL_STATES,
    DeliveryState,
    OperationState,
    StepState,
)
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


@dataclass(frozen=True, slots=True)
class Broken:
    """
    A promise that was not kept.

    Args:
        text: What is wrong.

        operation_id: Of which operation; None: of one that is missing, or of none.

        occurrence: Aware UTC; of one that is missing, or decided wrongly.
    """

    text: str
    operation_id: UUID | None = None
    occurrence: datetime | None = None

    def __str__(self) -> str:
        """Say what is wrong."""
        return self.text


def judge(world: World) -> Verdict:
    """Compare tables, rules and mails; nothing may run any more."""
    engine = world.installation.engine
    with reading(engine) as connection:
        rows = connection.execute(sa.select(operations)).all()
        marks = connection.execute(sa.select(deliveries)).all()
        steps = connection.execute(sa.select(operation_steps)).all()
        leaders = connection.execute(sa.select(leases.c.fence)).scalar_one()
        until = get_last_tick_at(connection)
    assert until is not None  # it has ticked
    messages = world.mails.messages
    broken = [
        *audit(engine, since=world.since, until=until, at_least=len(world.actions)),
        *judge_operations(rows, steps),
        *judge_mails(messages, rows, marks, find_users=lambda _row: set(USERS)),
    ]
    return Verdict(
        faults=[str(each) for each in broken],
        states=Counter(row.state for row in rows),
        deliveries=Counter(mark.state for mark in marks),
        mails=len(world.mails.messages),
        leaders=leaders,
    )


def audit(
    engine: sa.Engine, *, since: datetime, until: datetime, at_least: int
) -> Iterator[Broken]:
    """Compare the rules with the record, of *at_least* so many actions."""
    audited = 0
    for history in fetch_histories(engine, since=since, until=until):
        if not history.is_of_time:
            continue
        audited += 1
        strict = replace(history, catches_up=False)
        for finding in audit_action(strict, since=since, until=until):
            yield Broken(f"audit: {finding}", occurrence=finding.occurrence)
    if audited < at_least:
        yield Broken(f"audit: only {audited} actions were audited")


def judge_operations(rows: Rows, steps: Rows) -> Iterator[Broken]:
    """Compare operations with their steps."""
    final = {row.id: row for row in rows if row.state in FINAL_STATES}
    for row in rows:
        if row.id not in final:
            yield Broken(f"operation {row.id} is still {row.state}", row.id)
        elif row.state != OperationState.SUCCEEDED and not row.reason:
            text = f"operation {row.id} is {row.state} and nobody can say why"
            yield Broken(text, row.id)
        if row.attempt > row.attempts_allowed:
            text = f"operation {row.id} was tried {row.attempt} times"
            yield Broken(text, row.id)
    for step in steps:
        if step.operation_id not in final:
            continue
        row = final[step.operation_id]
        text = f"step {step.name} of {row.id} is {step.state}, and it "
        if step.state in {StepState.PENDING, StepState.RUNNING}:
            yield Broken(f"{text}is {row.state}", row.id)
        if row.state == OperationState.SUCCEEDED and step.state != StepState.SUCCEEDED:
            yield Broken(f"{text}succeeded", row.id)


def judge_mails(
    messages: Sequence[EmailMessage],
    rows: Rows,
    marks: Rows,
    *,
    find_users: Callable[[sa.Row[Any]], set[str]],
) -> Iterator[Broken]:
    """Compare what arrived with the marks, and marks with whom *find_users* expects."""
    arrived = Counter(str(mail["Message-ID"]).strip() for mail in messages)
    known = set()
    marked: dict[UUID, set[str]] = defaultdict(set)
    for mark in marks:
        operation_id = mark.operation_id
        message_id = _make_message_id(operation_id, mark.recipient)
        known.add(message_id)
        marked[operation_id].add(mark.recipient)
        where = f"mail to {mark.recipient!r} of {operation_id}"
        count = arrived[message_id]
        if count > 1:
            yield Broken(f"{where} arrived {count} times", operation_id)
        if mark.state == DeliveryState.SENT and not count:
            text = f"{where} is marked as sent, and none arrived"
            yield Broken(text, operation_id)
        if mark.state == DeliveryState.FAILED and count:
            text = f"{where} is marked as failed, and arrived"
            yield Broken(text, operation_id)
        if mark.state == DeliveryState.SENDING:
            yield Broken(f"{where} is still said to be on its way", operation_id)
    for message_id in arrived.keys() - known:
        yield Broken(f"mail {message_id} belongs to nothing")
    for row in rows:
        if row.state == OperationState.SUCCEEDED and marked.get(row.id):
            missing = find_users(row) - marked[row.id]
            if missing:
                text = f"operation {row.id} succeeded without mails to {missing}"
                yield Broken(text, row.id)


def _make_message_id(operation_id: UUID, user: str) -> str:
    """Return it by the documented rule, not by the code that sends."""
    return f"<{str_to_uuid(f'{operation_id} | {_STEP} | {user}')}@minutehand>"
