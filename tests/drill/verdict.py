"""Whether an installation that was drilled kept what we promise, fault by fault."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.leader import get_last_tick_at
from models.database.engine import reading
from models.database.tables import deliveries, operation_steps, operations
from models.operation_state import FINAL_STATES, OperationState
from tests.chaos.ledger import (
    Broken,
    Rows,
    audit,
    judge_mails,
    judge_operations,
)
from tests.chaos.apps import USERS
from tests.chaos.case import Case
from tests.chaos.mails import MoodyMailServer
from tests.drill.world import World

#: How an operation may end here: nothing that the drill does is an app's mistake.
_GOOD_ENDS = {OperationState.SUCCEEDED, OperationState.SKIPPED}


@dataclass
class Verdict:
    """
    What is wrong, and what happened.

    Args:
        states: How many operations ended how.

        deliveries: How many mails ended how, by their marks.

        mails: How many arrived.

        doubled: Mails that arrived more than once.

        lost: Occurrences without the decision that they should have, and operations
            without an end.

        tasks: Of the project that ``run_task`` sends to: ids of those that ran. Not
            ours to keep: FLUSHALL takes some from it.

        overall: What is wrong and of no fault in particular.
    """

    states: Counter[str] = field(default_factory=Counter)
    deliveries: Counter[str] = field(default_factory=Counter)
    mails: int = 0
    doubled: int = 0
    lost: int = 0
    tasks: Counter[str] = field(default_factory=Counter)
    overall: list[str] = field(default_factory=list)


def judge(world: World, cases: Sequence[Case]) -> Verdict:
    """Compare tables, rules and mails, and tell each case what is wrong of it."""
    with reading(world.engine) as connection:
        rows = connection.execute(sa.select(operations)).all()
        marks = connection.execute(sa.select(deliveries)).all()
        steps = connection.execute(sa.select(operation_steps)).all()
        until = get_last_tick_at(connection)
    assert until is not None  # it has ticked
    messages = world.mails.messages
    broken = [
        *audit(world.engine, since=world.since, until=until, at_least=1000),
        *judge_operations(rows, steps),
        *judge_mails(messages, rows, marks, find_users=_find_users),
        *_judge_ends(rows),
    ]
    recorded = {row.id: row.recorded_at for row in rows}
    verdict = Verdict(
        states=Counter(row.state for row in rows),
        deliveries=Counter(mark.state for mark in marks),
        mails=len(messages),
        doubled=_count_doubled(world.mails),
        lost=sum(each.occurrence is not None for each in broken)
        + sum(row.state not in FINAL_STATES for row in rows),
        tasks=_read_tasks(world),
    )
    verdict.overall += attribute(broken, recorded, cases)
    _judge_asked(cases, {row.id: row.state for row in rows})
    return verdict


def attribute(
    broken: Sequence[Broken],
    recorded: Mapping[UUID, datetime],
    cases: Sequence[Case],
) -> list[str]:
    """
    Tell each case what is *broken* of operations recorded while it was the last.

    Args:
        broken: Of any operations.

        recorded: When each operation was, aware UTC.

        cases: In the order in which they began.

    Returns:
        What belongs to none of them.
    """
    rest = []
    for each in broken:
        at = each.occurrence
        if each.operation_id is not None:
            at = recorded.get(each.operation_id)
        before = [case for case in cases if at is not None and case.begun_at <= at]
        if before:
            before[-1].wrong.append(each.text)
        else:
            rest.append(each.text)
    return rest


def _count_doubled(mails: MoodyMailServer) -> int:
    arrived = Counter(
        (str(message["Message-ID"]).strip(), recipient)
        for message, recipients in zip(mails.messages, mails.envelopes, strict=True)
        for recipient in recipients
    )
    return sum(count - 1 for count in arrived.values())


def _read_tasks(world: World) -> Counter[str]:
    lines = world.tasks_done.read_text().splitlines()
    return Counter(str(json.loads(line)[0]) for line in lines)


def _find_users(row: sa.Row[Any]) -> set[str]:
    return set(USERS) if row.user_id is None else {row.user_id}


def _judge_ends(rows: Rows) -> Iterator[Broken]:
    """Find what failed or was missed: the drill gives no app a reason to."""
    for row in rows:
        if row.state in {OperationState.FAILED, OperationState.MISSED}:
            text = f"operation {row.id} is {row.state}: {row.reason}; {row.error}"
            yield Broken(text, row.id)


def _judge_asked(cases: Sequence[Case], states: Mapping[UUID, str]) -> None:
    for case in cases:
        count = Counter(states.get(each, "lost") for each in case.must_end)
        good = sum(n for state, n in count.items() if state in _GOOD_ENDS)
        if case.must_end:
            case.notes.append(f"{good} of {len(case.must_end)} asked for came through")
        if good < len(case.must_end):
            case.wrong.append(f"of those asked for: {dict(count)}")
