"""
An independent check of the recorded decisions against the rules.

It reads cron rules with cronsim, intervals and delays with a count of its own, and
excepted and working days one by one, not with the code of the tick, so a mistake there
shows here. Calendar rules have no second reader here; the tests compare them with
systemd.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, assert_never

from cronsim import CronSimError

from actions.explaining.own_readings import (
    move_occurrence,
    read_cron,
    read_interval,
    read_working_days,
    widen,
)
from actions.explaining.recorded import (
    ActionHistory,
    Keeps,
    RecordedOperation,
    Revision,
    find_looked_at,
    find_missing_runs,
    find_undecided,
    is_left_to,
)
from actions.occurrences import make_rule, parse_timing
from actions.when.moving import get_wall_time
from actions.when.searching import find_each
from models.errors import RuleError
from models.fields.zone import load_zone
from models.occurrence import LOOKBACK
from models.operation_state import OperationState, Trigger
from models.when import (
    CalendarModel,
    CronModel,
    DueDateModel,
    IntervalModel,
    TimeModel,
    TimingModel,
    WorkingDayModel,
)

#: The look-back counts from the tick, which comes up to a minute after the occurrence.
_TICK = timedelta(minutes=1)


class Fault(StrEnum):
    """What is wrong with a decision, or with its absence."""

    MISS = "miss"  # due, but not decided
    EXTRA = "extra"  # decided, but not due
    EARLY = "early"  # decided before it was due
    LATE = "late"  # decided after the look-back, although nothing is caught up
    DOUBLED = "doubled"  # decided twice
    UNREADABLE = "unreadable"  # the rule cannot be read from that instant on


@dataclass(frozen=True, slots=True)
class AuditFault:
    """An occurrence (aware UTC) that was not decided as the rules say, and how."""

    fault: Fault
    action_uid: str
    occurrence: datetime
    detail: str


def audit_action(
    history: ActionHistory,
    *,
    since: datetime,
    until: datetime,
    lookback: timedelta = LOOKBACK,
) -> list[AuditFault]:
    """
    Compare the decisions about a time-driven action with its rules.

    Args:
        history: With the decisions about occurrences in the period, and each missed row
            that may overlap the period.
        since: Aware; inclusive.
        until: Aware; exclusive. Not later than the last tick.
        lookback: How old an occurrence may be and still simply run.

    Returns:
        The faults, in order of occurrence; empty if there are none.
    """
    uid, revisions, decided = history.uid, history.revisions, history.decided
    findings: list[AuditFault] = []
    expected: set[datetime] = set()
    unread: list[_Term] = []
    for term in _find_terms(revisions, since, until):
        try:
            expected.update(_expect(uid, revisions, term))
        except (RuleError, CronSimError) as error:
            unread.append(term)
            detail = f"revision {revisions[term.number].number} cannot be read: {error}"
            findings.append(AuditFault(Fault.UNREADABLE, uid, term.begin, detail))
    scheduled = [each for each in decided if each.trigger == Trigger.SCHEDULE]
    # Somebody wanted these to run after all, whatever was decided, and however late.
    made_up_for = {e.occurrence for e in decided if e.trigger == Trigger.BACKFILL}
    single: dict[datetime, list[RecordedOperation]] = defaultdict(list)
    ranges = []
    for operation in scheduled:
        covered = operation.covered_range
        if covered is not None:
            ranges.append(covered)
        elif since <= operation.occurrence < until:
            single[operation.occurrence].append(operation)
    for occurrence, operations in single.items():
        if any(term.begin <= occurrence < term.end for term in unread):
            continue
        findings += _judge(history, occurrence, operations, expected, lookback)
    for occurrence in expected:
        covering = [r for r in ranges if r[0] <= occurrence <= r[1]]
        count = len(covering) + len(single.get(occurrence, ()))
        if count == 0 and occurrence not in made_up_for:
            findings.append(AuditFault(Fault.MISS, uid, occurrence, "no decision"))
        elif count > 1 and covering:
            detail = "it was recorded as missed or overtaken, and decided on its own"
            findings.append(AuditFault(Fault.DOUBLED, uid, occurrence, detail))
    return sorted(findings, key=lambda each: (each.occurrence, each.fault))


def audit_event_action(
    history: ActionHistory, *, since: datetime, until: datetime, keeps: Keeps
) -> list[AuditFault]:
    """
    Compare the decisions about an event-driven action with the recorded events.

    Extra decisions are not looked for, because their events may be gone: events are
    pruned, and a newer "last seen" replaces an older one.

    Args:
        history: As for ``audit_action``, with the events whose occurrences may lie in
            the period.
        since: Aware; inclusive.
        until: Aware; exclusive. Not later than the last tick.
        keeps: Returns whether the recipients of an action include a user.

    Returns:
        The faults, in order of occurrence; empty if there are none.
    """
    uid, decided = history.uid, history.decided
    findings = [
        AuditFault(Fault.EARLY, uid, each.occurrence, f"operation {each.id}")
        for each in decided
        if since <= each.occurrence < until
        and each.recorded_at < each.occurrence
        # What follows another action is recorded as that ends, whatever its delay.
        and each.trigger != Trigger.ACTION
    ]
    for each in find_undecided(history.revisions, history.events, decided, keeps=keeps):
        # A tick does not see an event that is recorded but not committed yet.
        if since <= each.occurrence and each.due_at < until - _TICK:
            detail = f"no decision about user {each.user_id}"
            findings.append(AuditFault(Fault.MISS, uid, each.occurrence, detail))
    return sorted(findings, key=lambda each: (each.occurrence, each.fault))


def audit_following(
    history: ActionHistory, *, since: datetime, until: datetime
) -> list[AuditFault]:
    """
    Compare the runs of an action that starts after another one with the ends of that.

    Args:
        history: With the ends whose occurrences may lie in the period.
        since: Aware; inclusive.
        until: Aware; exclusive. Not later than the last tick.

    Returns:
        The faults, in order of occurrence; empty if there are none.
    """
    findings = []
    for at, ended in find_missing_runs(history.revisions, history.unfollowed):
        if since <= at < until:
            detail = f"nothing followed operation {ended.id} of {ended.action_uid!r}"
            findings.append(AuditFault(Fault.MISS, history.uid, at, detail))
    return sorted(findings, key=lambda each: each.occurrence)


def _judge(
    history: ActionHistory,
    occurrence: datetime,
    operations: Sequence[RecordedOperation],
    expected: set[datetime],
    lookback: timedelta,
) -> Iterator[AuditFault]:
    uid, first = history.uid, operations[0]
    if len(operations) > 1:
        ids = ", ".join(str(each.id) for each in operations)
        yield AuditFault(Fault.DOUBLED, uid, occurrence, f"operations {ids}")
    if occurrence not in expected:
        detail = f"the rule is not due then; operation {first.id}"
        yield AuditFault(Fault.EXTRA, uid, occurrence, detail)
        return
    delay = first.recorded_at - occurrence
    if delay < timedelta(0):
        detail = f"recorded {-delay} before it was due; operation {first.id}"
        yield AuditFault(Fault.EARLY, uid, occurrence, detail)
    limit = lookback + _TICK
    missed = first.state == OperationState.MISSED
    if delay > limit and not missed and not history.catches_up:
        detail = f"recorded {delay} after it was due; operation {first.id}"
        yield AuditFault(Fault.LATE, uid, occurrence, detail)


class _Term(NamedTuple):
    """The part of the period in which a revision was in force: ``[begin, end)``."""

    number: int  # of the revision, from 0
    timing: str
    begin: datetime
    end: datetime


def _find_terms(
    revisions: Sequence[Revision], since: datetime, until: datetime
) -> Iterator[_Term]:
    """Yield the terms of all active time-driven revisions that ticks looked at."""
    for number, revision in find_looked_at(revisions):
        if revision.timing is None:
            continue
        later = revisions[number + 1 :]
        begin = max(since, revision.effective_from)
        end = min(until, later[0].recorded_at) if later else until
        if begin < end:
            yield _Term(number, revision.timing, begin, end)


def _expect(uid: str, revisions: Sequence[Revision], term: _Term) -> Iterator[datetime]:
    """Yield the occurrences that should have been decided in *term*."""
    schedule = parse_timing(term.timing)
    timing = TimingModel.model_validate_json(term.timing)
    for occurrence in _read(timing, term.begin, term.end):
        due_at = schedule.due_at(occurrence, uid)
        if is_left_to(revisions, term.number, occurrence, due_at):
            yield occurrence


def _read(timing: TimingModel, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the occurrences of *timing* in ``[begin, end)``, read independently."""
    if timing.starts_at is not None:
        begin = max(begin, timing.starts_at)
    if timing.ends_at is not None:
        end = min(end, timing.ends_at)
    for rule in timing.when:
        zone = make_rule(rule).zone  # a calendar rule may name its own
        wide = widen(timing, begin, end, zone)
        for at, wall in _read_rule(rule, timing, *wide):
            occurrence = move_occurrence(timing, at, wall, zone)
            if occurrence is not None and begin <= occurrence < end:
                yield occurrence


def _read_rule(
    model: TimeModel, timing: TimingModel, begin: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """Yield each occurrence, and the local time that the rule names."""
    match model:
        case CronModel():
            yield from read_cron(model, begin, end)
        case IntervalModel() if model.anchor is not None:
            rule = make_rule(model)
            for at in read_interval(model, begin, end):
                yield at, get_wall_time(rule, at)
        case WorkingDayModel():
            zone = load_zone(model.timezone)
            for at in read_working_days(model, timing, begin, end):
                yield at, at.astimezone(zone).replace(tzinfo=None)
        case IntervalModel() | DueDateModel() | CalendarModel():
            # no other reader here: what is found is only compared with the record
            rule = make_rule(model)
            for at in find_each(rule, begin, end):
                yield at, get_wall_time(rule, at)
        case _:
            assert_never(model)
