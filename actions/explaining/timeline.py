"""
The occurrences of an action, past and planned, each with its decision. Pure.

What was decided is recorded; the rest follows from the rules of each revision while it
was in force, and is explained as ``why`` explains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from actions.explaining.expected_events import read_event_rule
from actions.explaining.recorded import Revision
from actions.explaining.why import (
    History,
    Verdict,
    explain_operation,
    explain_undone,
)
from actions.occurrences import parse_timing
from actions.when.searching import find_occurrences
from models.errors import RuleError
from models.operation_state import OperationState
from models.revision import Change

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Moment(NamedTuple):
    """
    One occurrence of an action, and what became or will become of it.

    Args:
        at: The occurrence, aware UTC.
        due_at: When it is or was to be sent, aware UTC: with jitter.
        user_id: The user whose event it follows. None: it follows from the time.
        text: The same as *verdict*, in a sentence.
        operation_id: The operation that is about it. None: there is none.
        state: Of that operation.
        reason: The same.
        revision: The revision in force at *at*. None: there was none yet.
    """

    at: datetime
    due_at: datetime
    user_id: str | None
    verdict: Verdict
    text: str
    operation_id: UUID | None
    state: OperationState | None
    reason: str | None
    revision: Revision | None

    @property
    def key(self) -> tuple[datetime, str]:
        """Its place among all occurrences of the action."""
        return self.at, self.user_id or ""


def list_moments(
    history: History,
    *,
    since: datetime,
    until: datetime,
    after: tuple[datetime, str] | None,
    limit: int,
) -> list[Moment]:
    """
    Return the occurrences of an action in a period, oldest first.

    Args:
        history: With at least the first *limit* decisions of the period.
        since: Aware UTC, inclusive.
        until: Aware UTC, exclusive.
        after: Leave out those up to this ``Moment.key``. None: none.
    """
    begin = since if after is None else max(since, after[0])
    known = {each.key: each for each in _list_decided(history, begin, until)}
    missed = replace(
        history,
        operations=tuple(o for o in history.operations if o.covered_range is not None),
    )
    for found in (
        _list_timed(missed, begin, until, limit + 1),
        _list_awaited(missed, begin, until),
    ):
        for moment in found:
            known.setdefault(moment.key, moment)
    wanted = [key for key in sorted(known) if after is None or key > after]
    return [known[key] for key in wanted[:limit]]


def _list_decided(
    history: History, since: datetime, until: datetime
) -> Iterator[Moment]:
    """Yield the occurrences that have operations of their own."""
    for operation in history.operations:
        if operation.covered_range is not None:
            continue
        if not since <= operation.occurrence < until:
            continue
        answer = explain_operation(history, operation)
        in_force = [
            each
            for each in history.revisions
            if each.recorded_at <= operation.recorded_at
        ]
        yield Moment(
            operation.occurrence,
            operation.send_at if operation.sent_at is None else operation.sent_at,
            operation.user_id,
            answer.verdict,
            answer.text,
            operation.id,
            OperationState(operation.state),
            operation.reason,
            in_force[-1] if in_force else None,
        )


def _list_timed(
    history: History, since: datetime, until: datetime, limit: int
) -> Iterator[Moment]:
    """Yield what the rules of time say, *limit* at most, decided or not."""
    left = limit
    for revision, begin, end in _find_terms(history, since, until):
        if revision.timing is None:
            continue
        try:
            schedule = parse_timing(revision.timing)
        except RuleError:
            continue  # it is in quarantine, or will be when it is due
        for at in find_occurrences(schedule, begin, end, limit=left):
            left -= 1
            due_at = schedule.due_at(at, history.uid)
            yield _make_undone(history, revision, at, due_at, None)


def _find_terms(
    history: History, since: datetime, until: datetime
) -> Iterator[tuple[Revision, datetime, datetime]]:
    """Yield each revision with the part of the period in which it was in force."""
    ends = [each.recorded_at for each in history.revisions[1:]] + [until]
    for revision, end in zip(history.revisions, ends, strict=True):
        begin, last = max(since, revision.recorded_at), min(until, end)
        if begin < last and revision.change != Change.DELETED:
            yield revision, begin, last


def _list_awaited(
    history: History, since: datetime, until: datetime
) -> Iterator[Moment]:
    """Yield what recorded events will lead to, under the latest revision."""
    revision = history.revisions[-1]
    rule = read_event_rule(revision.document)
    if rule is None or revision.change == Change.DELETED:
        return
    decided_until = history.last_tick_at or _LONG_AGO
    for event in history.events:
        at = rule.get_occurrence(event)
        if at is None or not since <= at < until:
            continue
        due_at = max(at, event.recorded_at)
        # If no operation is recorded by then, its recipients do not include the user.
        if due_at > decided_until:
            yield _make_undone(history, revision, at, due_at, event.user_id)


def _make_undone(
    history: History,
    revision: Revision,
    at: datetime,
    due_at: datetime,
    user_id: str | None,
) -> Moment:
    verdict, text, operation_id = explain_undone(history, revision, at, due_at)
    about = next((o for o in history.operations if o.id == operation_id), None)
    return Moment(
        at,
        due_at,
        user_id,
        verdict,
        text,
        operation_id,
        None if about is None else OperationState(about.state),
        None if about is None else about.reason,
        revision,
    )
