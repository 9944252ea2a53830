"""
The account of one operation, for its page: how its id is computed, what became of its
attempts, how often the same failure was seen, what it made, and who intervened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.lists import belongs_to
from models.database.tables import TROUBLED, deliveries, domains, operations
from models.decision import AFTER_KEY
from models.occurrence import (
    format_occurrence,
    make_after_id,
    make_longer_missed_id,
    make_missed_id,
    make_operation_id,
)
from models.operation_state import OperationState, StepState, Trigger
from models.paging import Page
from operations.reasons import CausePattern, has_cause, make_cause
from operations.running.past_attempts import AttemptOutcome, read_attempts
from overview.changes import ChangeFilter, RecordedChange, fetch_changes
from overview.operations import ShownOperation, fetch_shown_operation

#: Interventions that are told, the latest.
_INTERVENTIONS = 20

#: Recipients that are named of each state of mails.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """
    How the id of an operation is computed.

    Args:
        text: What it is the UUID version 5 of.
        is_proved: Whether *text* was just computed to give that id; of a manual run, or
            a notice, a part of it is not kept.
    """

    text: str
    is_proved: bool


@dataclass(frozen=True, slots=True)
class StepAttempt:
    """
    One attempt at one step; instants are aware UTC.

    Args:
        step: None: the attempt ended before its first step.
        state: That of a step; or postponed, for one that waits for the platform.
        began_at: None: it has not begun.
        ended_at: None: it runs, or has not begun.
    """

    step: str | None
    attempt: int
    state: str
    began_at: datetime | None
    ended_at: datetime | None
    error: str | None

    @property
    def lane(self) -> str:
        """Where it is drawn."""
        return self.step or "before a step"


@dataclass(frozen=True, slots=True)
class MadeVersion:
    """
    A version of a domain that an operation staged.

    Args:
        version: None: the source was unchanged, so that the former one was reused.
        is_live: Whether it is the live version now.
    """

    domain: str
    version: int | None
    rows: int | None
    is_live: bool


@dataclass(frozen=True, slots=True)
class MadeMails:
    """Mails of one step in one state, and the first of their recipients."""

    step: str
    state: str
    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """
    The account of an operation.

    Args:
        stretches: Each attempt at each step, in the order in which they began; then
            what has not begun.
        same: How often the failure was seen. None: it has not failed.
        published: What it published, such as data.
        interventions: Who canceled it, or let it run again; the latest last.
        at: The time of the database, aware UTC.
    """

    operation: ShownOperation
    identity: Identity
    stretches: tuple[StepAttempt, ...]
    same: SameCause | None
    versions: tuple[MadeVersion, ...]
    published: tuple[str, ...]
    mails: tuple[MadeMails, ...]
    interventions: tuple[RecordedChange, ...]
    at: datetime


def fetch_account(
    connection: sa.Connection, operation_id: UUID, *, app: str | None = None
) -> Account:
    """
    Return the account of an operation.

    Args:
        app: Uid of the small app that it must belong to; then the same failures are
            counted there alone. None: any.

    Raises:
        NotFoundError: There is no such operation.
    """
    shown = fetch_shown_operation(connection, operation_id, app=app)
    same = None
    if shown.state is OperationState.FAILED:
        cause = make_cause(shown.reason, shown.error)
        same = count_same_cause(connection, cause, app=app)
    wanted = ChangeFilter(app=shown.app, kind="operation", subject=str(shown.id))
    changed = fetch_changes(connection, wanted, Page(_INTERVENTIONS))
    results = {step.name: step.result or {} for step in shown.steps}
    return Account(
        operation=shown,
        identity=explain_id(shown),
        stretches=tuple(find_stretches(shown)),
        same=same,
        versions=_find_versions(connection, shown.app, results.get("refresh", {})),
        published=tuple(results.get("publish", {}).get("published") or ()),
        mails=_count_mails(connection, shown.id),
        interventions=tuple(reversed(changed.entries)),
        at=read_clock(connection),
    )


def explain_id(shown: ShownOperation) -> Identity:
    """Return how the id of an operation is computed, and whether that was checked."""
    uid, occurrence = shown.action_uid, shown.occurrence
    at = format_occurrence(occurrence)
    if shown.state is OperationState.MISSED and shown.missed is not None:
        first, last = shown.missed.first, shown.missed.last
        made = make_missed_id(uid, first)
        proved = shown.id in {made, make_longer_missed_id(made, last)}
        return Identity(f"{uid} | missed | {format_occurrence(first)}", proved)
    if shown.trigger is Trigger.MANUAL:
        return Identity(f"{uid} | manual | the key of the request", is_proved=False)
    if shown.trigger is Trigger.ACTION:
        ended = (shown.details or {})[AFTER_KEY]["operation"]
        proved = make_after_id(uid, UUID(ended)) == shown.id
        return Identity(f"{uid} | after | {ended}", proved)
    if shown.trigger is Trigger.NOTICE:
        return Identity("the id of the notice | its number", is_proved=False)
    text = f"{uid} | {at}"
    if shown.user_id is not None:
        text = f"{text} | {shown.user_id}"
    proved = make_operation_id(uid, occurrence, shown.user_id) == shown.id
    return Identity(text, proved)


def find_stretches(shown: ShownOperation) -> Sequence[StepAttempt]:
    """
    Return each attempt at each step, as far as it is known.

    The steps know the last attempt at each; attempts before that are known if they
    failed or were postponed, not if their worker was lost.
    """
    last = {(step.name, step.attempt) for step in shown.steps}
    found = [
        StepAttempt(
            *(each.step, each.number, str(each.outcome)),
            *(each.step_began_at or each.began_at, each.ended_at, each.error),
        )
        for each in read_attempts(shown.details)
        if each.outcome is AttemptOutcome.POSTPONED
        or (each.step, each.number) not in last
    ]
    for step in shown.steps:
        has_begun = step.started_at is not None and step.state is not StepState.PENDING
        times = (step.started_at, step.finished_at) if has_begun else (None, None)
        what = step.name, step.attempt, str(step.state)
        found.append(StepAttempt(*what, *times, step.error))
    return sorted(found, key=lambda each: (each.began_at is None, str(each.began_at)))


def _find_versions(
    connection: sa.Connection, app: str, result: Mapping[str, Any]
) -> tuple[MadeVersion, ...]:
    versions: Mapping[str, int] = result.get("versions") or {}
    rows: Mapping[str, int] = result.get("rows") or {}
    live: dict[str, int | None] = {}
    if versions:
        kept = domains.c
        query = sa.select(kept.name, kept.live_version).where(kept.app == app)
        live = {row.name: row.live_version for row in connection.execute(query)}
    made = [
        MadeVersion(name, number, rows.get(name), live.get(name) == number)
        for name, number in versions.items()
    ]
    reused = result.get("reused") or ()
    made += [MadeVersion(name, None, None, is_live=False) for name in reused]
    return tuple(made)


def _count_mails(
    connection: sa.Connection, operation_id: UUID
) -> tuple[MadeMails, ...]:
    marks = deliveries.c
    of = marks.operation_id == operation_id
    of_group = (marks.step, marks.state)
    groups = connection.execute(
        sa.select(*of_group, sa.func.count())
        .where(of)
        .group_by(*of_group)
        .order_by(*of_group)
    ).all()
    made = []
    for step, state, count in groups:
        first = (
            sa.select(marks.recipient)
            .where(of, marks.step == step, marks.state == state)
            .order_by(marks.recipient)
            .limit(_NAMED)
        )
        names = tuple(connection.execute(first).scalars())
        made.append(MadeMails(step, state, count, names))
    return tuple(made)


DAY, WEEK = timedelta(days=1), timedelta(days=7)

#: Failed and missed operations that are looked at, at most; the latest.
_LOOKED_AT = 5_000


@dataclass(frozen=True, slots=True)
class SameCause:
    """
    How often failures of one cause were seen lately; instants are aware UTC.

    Args:
        day: In the last 24 hours.
        week: In the last seven days.
        first_at: The first of these. None: it is longer ago.
        since: They were counted since then: later than a week ago if there are too
            many failures.
    """

    day: int
    week: int
    first_at: datetime | None
    last_at: datetime | None
    since: datetime


def count_same_cause(
    connection: sa.Connection, cause: CausePattern, *, app: str | None
) -> SameCause:
    """
    Count the failures of *cause* within a week.

    Args:
        cause: Of one of them.
        app: Uid of the small app whose operations count. None: of all.
    """
    now = read_clock(connection)
    kept = operations.c
    latest = (
        sa.select(kept.state, kept.reason, kept.error, kept.finished_at)
        .where(TROUBLED.of(), kept.finished_at >= now - WEEK, *belongs_to(app))
        .order_by(kept.finished_at.desc())
        .limit(_LOOKED_AT)
        .subquery("latest")
    )
    at = latest.c.finished_at
    is_same = sa.and_(
        latest.c.state == OperationState.FAILED, has_cause(latest.c, cause)
    )
    is_of_day = sa.and_(is_same, at >= now - DAY)
    row = connection.execute(
        sa.select(
            sa.func.count().label("looked_at"),
            sa.func.min(at, type_=at.type).label("oldest"),
            sa.func.sum(sa.case((is_same, 1), else_=0)).label("week"),
            sa.func.sum(sa.case((is_of_day, 1), else_=0)).label("day"),
            sa.func.min(sa.case((is_same, at)), type_=at.type).label("first_at"),
            sa.func.max(sa.case((is_same, at)), type_=at.type).label("last_at"),
        )
    ).one()
    return SameCause(
        day=row.day or 0,
        week=row.week or 0,
        first_at=row.first_at,
        last_at=row.last_at,
        since=now - WEEK if row.looked_at < _LOOKED_AT else row.oldest,
    )
