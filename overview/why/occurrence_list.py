"""The occurrences of an action as faces show them: past and planned in one list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from actions.explaining.history import fetch_bounded_history
from actions.explaining.recorded import Revision, find_in_force, read_event_rule
from actions.explaining.why import History, Verdict, explain_operation, explain_undone
from actions.occurrences import read_timing
from actions.previews.preview import place_occurrence
from actions.when.searching import find_occurrences
from models.database.engine import read_clock
from models.errors import UsageError
from models.fields.zone import load_zone
from models.json_form import ASIDE, LocalTimeJson, make_local_time
from models.operation_state import OperationState
from models.paging import Page, Part
from models.revision import Change
from overview.why.instant import add_told

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
        is_within = since <= operation.occurrence < until
        if operation.covered_range is not None or not is_within:
            continue
        answer = explain_operation(history, operation)
        in_force = find_in_force(history.revisions, operation.recorded_at)
        sent_at = operation.send_at if operation.sent_at is None else operation.sent_at
        yield Moment(
            *(operation.occurrence, sent_at, operation.user_id),
            *(answer.verdict, answer.text, operation.id),
            *(OperationState(operation.state), operation.reason),
            in_force[-1] if in_force else None,
        )


def _list_timed(
    history: History, since: datetime, until: datetime, limit: int
) -> Iterator[Moment]:
    """Yield what the rules of time say, *limit* at most, decided or not."""
    left = limit
    for revision, begin, end in _find_terms(history, since, until):
        schedule = read_timing(revision.timing)
        if schedule is None:
            continue
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
    told = explain_undone(history, revision, at, due_at)
    alike = (each for each in history.operations if each.id == told[-1])
    about = next(alike, None) if told[-1] else None
    state = None if about is None else OperationState(about.state)
    reason = None if about is None else about.reason
    return Moment(at, due_at, user_id, *told, state, reason, revision)


#: The period that is listed unless the caller says otherwise, before and after now.
AROUND = timedelta(days=7)

#: The longest period: the rules of a year and a day are quickly searched.
LONGEST = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class ShownOccurrence:
    """
    An occurrence of an action, and what was decided of it; aware UTC.

    Args:
        occurrence: With what the clocks of its rule's zone show.
        due_at: The same, and jitter.
        user: Whose event it follows. Null: it is of a rule of time.
        text: Why, in a sentence.
        operation: What was recorded. Null: nothing was, or not yet.
        notes: What the clocks and the calendar do to it.
        moment: What it was made from.
    """

    occurrence: LocalTimeJson
    due_at: datetime
    user: str | None
    verdict: Verdict
    text: str
    operation: UUID | None
    state: OperationState | None
    reason: str | None
    notes: tuple[str, ...]
    moment: Moment = field(metadata=ASIDE)


def fetch_occurrence_part(
    connection: sa.Connection,
    uid: str,
    page: Page,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    app: str | None = None,
) -> Part[ShownOccurrence]:
    """
    Return a part of the occurrences of an action, oldest first, each with its decision.

    Of an event-driven action: those that were decided, and those to which the events so
    far will lead.

    Args:
        uid: Of an action, deleted or not.
        page: Its position is that of ``Part.following``: occurrence and user.
        since: Aware, inclusive. None: AROUND before *until*, or before now.
        until: Aware, exclusive. None: AROUND after *since*, or after now.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There has never been such an action.
        UsageError: *since* is not before *until*, or longer than LONGEST before.
    """
    now = read_clock(connection)
    begin = since or min(now, until or now) - AROUND
    end = until or max(now, since or now) + AROUND
    if begin >= end:
        msg = "from is not before until. Write an earlier from, or a later until."
        raise UsageError(msg)
    if end - begin > LONGEST:
        msg = f"from and until are more than {LONGEST.days} days apart. Ask in parts."
        raise UsageError(msg)
    after = page.read_after(datetime, str)
    limit = page.limit + 1
    history = fetch_bounded_history(
        connection, uid, app=app, within=(begin, end), after=after, limit=limit
    )
    history = add_told(connection, history)
    found = list_moments(history, since=begin, until=end, after=after, limit=limit)
    shown = [_place(each) for each in found[: page.limit]]
    if len(found) <= page.limit:
        return Part(shown, None)
    return Part(shown, shown[-1].moment.key)


def _place(moment: Moment) -> ShownOccurrence:
    revision = moment.revision
    schedule = None if revision is None else read_timing(revision.timing)
    notes: tuple[str, ...] = ()
    if schedule is not None:
        placed = place_occurrence(schedule, moment.at)
        zone, notes = placed.zone, tuple(placed.notes)
    else:
        rule = None if revision is None else read_event_rule(revision.document)
        zone = load_zone("UTC" if rule is None else rule.when.timezone)
    occurrence = make_local_time(moment.at, zone)
    return ShownOccurrence(occurrence, *moment[1:8], notes, moment)
