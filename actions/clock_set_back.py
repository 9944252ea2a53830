"""What follows for actions when the database's clock was set back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.decide import DueAction, EventCandidate
from actions.due_rows import advance
from actions.lease import get_set_back
from actions.occurrences import next_due_at, parse_timing, read_timing
from actions.when.event import LATEST_RECORDING, event_occurrence
from models.database.tables import (
    IS_REVISION,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.decision import Decision
from models.fields.delay import Delay
from models.fields.zone import load_zone
from models.operation_state import OperationState, Trigger
from models.scheduled_action import LONGEST_JITTER

_RESOLUTION = timedelta.resolution

_action = scheduled_actions.c


def recompute_due(
    connection: sa.Connection, *, now: datetime, after: str, at_most: int
) -> str | None:
    """
    Recompute when some actions are due next, after the clock was set back to *now*.

    What is due by then stays due. Occurrences that ran before the clock was set back
    have their rows, and do not run again.

    Args:
        now: Aware UTC.
        after: Only actions whose uid is greater.
        at_most: How many to look at.

    Returns:
        The greatest uid of those that were looked at; None if there are no more.
    """
    is_later = sa.or_(_action.next_due_at.is_(None), _action.next_due_at > now)
    is_of_time = _action.active, _action.timing.is_not(None), is_later
    rows = connection.execute(
        sa.select(_action.uid, _action.revision, _action.timing, _action.effective_from)
        .where(_action.uid > after, _action.deleted_at.is_(None), *is_of_time)
        .order_by(_action.uid)
        .limit(at_most)
    ).all()
    decisions = []
    for row in rows:
        schedule = read_timing(row.timing)
        if schedule is None:
            continue
        since, start = now - _RESOLUTION, row.effective_from
        due_at = next_due_at(schedule, row.uid, after=since, effective_from=start)
        decisions.append(Decision(row.uid, row.revision, due_at))
    if decisions:
        advance(connection, decisions)
    return rows[-1].uid if len(rows) == at_most else None


def skip_decided(
    connection: sa.Connection, actions: Sequence[DueAction], *, before: datetime
) -> list[DueAction]:
    """
    Return *actions*, those due before *before* only after what they have decided.

    The clock was set back, due instants with it, and came right by a leap: what was
    decided before is not missed. What a rule decides, it decides in order, whatever
    else of its action changes, as by a pause.

    Args:
        before: Aware UTC; what is due later runs, and does not run twice.
    """
    late = {
        each.uid: each.next_due_at for each in actions if each.next_due_at <= before
    }
    if not late or get_set_back(connection) is None:
        return list(actions)
    kept = operations.c
    found = connection.execute(
        sa.select(kept.action_uid, sa.func.max(kept.occurrence))
        .join_from(operations, scheduled_action_revisions, IS_REVISION)
        .join(scheduled_actions, _action.uid == kept.action_uid)
        .where(
            kept.action_uid.in_(sorted(late)),
            # What ran while the clock was ahead is later, and no decision about now.
            kept.occurrence.between(min(late.values()) - LONGEST_JITTER, before),
            kept.trigger == Trigger.SCHEDULE,
            kept.state != OperationState.MISSED,
            scheduled_action_revisions.c.timing == _action.timing,
        )
        .group_by(kept.action_uid)
    )
    decided = dict(found.all())
    return [_begin_after(each, decided.get(each.uid)) for each in actions]


def _begin_after(action: DueAction, decided: datetime | None) -> DueAction:
    if decided is None or action.timing is None:
        return action
    due_at = parse_timing(action.timing).due_at(decided, action.uid) + _RESOLUTION
    return action._replace(next_due_at=max(action.next_due_at, due_at))


def drop_decided(
    connection: sa.Connection,
    actions: Sequence[DueAction],
    events: Mapping[str, Sequence[EventCandidate]],
    *,
    before: datetime,
) -> Mapping[str, Sequence[EventCandidate]]:
    """
    Return *events* without those that *actions* due before *before* have decided.

    An event that was recorded while the clock was back wakes its action at that time,
    and all that came before the clock was set back lies after it.

    Args:
        events: By the uid of the action that waits for them.
        before: As for ``skip_decided``.
    """
    late = [each for each in actions if each.next_due_at <= before]
    if not late or get_set_back(connection) is None:
        return events
    kept = operations.c
    since = min(each.next_due_at for each in late) - LATEST_RECORDING
    found = connection.execute(
        sa.select(kept.action_uid, kept.occurrence, kept.user_id).where(
            kept.action_uid.in_(sorted(each.uid for each in late)),
            kept.trigger == Trigger.EVENT,
            kept.occurrence.between(since, before),
        )
    )
    decided: defaultdict[str, set[tuple[datetime, str]]] = defaultdict(set)
    for uid, occurrence, user_id in found:
        decided[uid].add((occurrence, user_id))
    left = dict(events)
    for action in late:
        delay, zone = Delay.parse(action.delay), load_zone(action.zone)
        left[action.uid] = [
            each
            for each in events.get(action.uid, ())
            if (event_occurrence(each.at, delay, zone), each.user_id)
            not in decided[action.uid]
        ]
    return left
