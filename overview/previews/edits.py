"""What an edit of an action changes in its near future, before it is saved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.explaining.expected_events import EventRule, read_event_rule
from actions.explaining.history import fetch_rule_events
from actions.lookup import find_action, get_action
from actions.occurrences import make_schedule
from actions.posting.changes import (
    COMPARED,
    ForeseenRuns,
    RunChanges,
    compare_runs,
)
from actions.posting.doubts import find_doubts
from actions.posting.post import Posting, fetch_holidays, post_action
from actions.posting.references import fetch_references
from actions.read_rules import read_schedule, runs_when_resumed
from models.database.engine import read_clock
from models.database.journal import rolled_back
from models.errors import NotFoundError, Problem
from models.json_form import ASIDE
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing
from models.when import EventModel
from operations.adapters.app_users import fetch_users
from operations.recipients import keeps_triggering_user

#: Events that are looked at for each rule; what they lead to is compared up to the last
#: of them. Looking up their users takes a tenth of a second.
MOST_EVENTS = 2000

#: Users in one statement.
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class ForetoldPost(RunChanges):
    """
    What a post would change; times are aware UTC.

    Args:
        uid: Null: it would be new.
        superseded: As of ``Posted``.
        doubts: What may be a mistake.
    """

    uid: str | None
    revision: int
    superseded: tuple[datetime, ...]
    doubts: list[Problem] = field(metadata=ASIDE)


def foretell_post(
    connection: sa.Connection,
    app: str,
    action: ScheduledActionModel,
    how: Posting,
) -> ForetoldPost:
    """
    Return what storing *action* would change, without storing it.

    Args:
        replace: As for ``post_action``.
        lookback: As for ``post_action``.

    Raises:
        NotFoundError, ConflictError, InvalidDocumentError: As ``post_action``.
    """
    old = _find_old(connection, app, action)
    now = read_clock(connection)
    holidays = fetch_holidays(connection, app)
    with rolled_back(connection):
        posted = post_action(connection, app, action, how)
    action = action.model_copy(update={"uid": posted.uid})
    changes = foretell_edit(connection, app, old, action, now=now, holidays=holidays)
    known = fetch_references(connection, app, [action])
    members = {each.name: getattr(changes, each.name) for each in fields(RunChanges)}
    return ForetoldPost(
        **members,
        uid=None if posted.created else posted.uid,
        revision=posted.revision,
        superseded=posted.superseded,
        doubts=find_doubts(known, action),
    )


def foretell_edit(
    connection: sa.Connection,
    app: str,
    old: sa.Row[Any] | None,
    action: ScheduledActionModel,
    *,
    now: datetime,
    holidays: Mapping[str, Sequence[DayRange]],
) -> RunChanges:
    """
    Return how the runs of the near future would change if *action* were stored.

    Of an event-driven action: the runs to which the events so far lead, for the users
    whom its recipients keep now.

    Args:
        old: The row that it would replace. None: it is new.
        action: As the door read it, with its uid.
        now: Aware UTC; what is compared begins here and lasts for COMPARED.
        holidays: The days of each holiday calendar of the app.
    """
    created_at = now if old is None else old.created_at
    timing = make_timing(action, created_at=created_at, holidays=holidays)
    after = ForeseenRuns(None if timing is None else make_schedule(timing))
    if isinstance(action.when, EventModel):
        rule = EventRule(action, action.when)
        after = _foresee_events(connection, app, rule, now)
    before = ForeseenRuns(read_schedule(old))
    if before.schedule is None and runs_when_resumed(old):
        old_rule = read_event_rule(None if old is None else old.document)
        if old_rule is not None:
            before = _foresee_events(connection, app, old_rule, now)
    return compare_runs(
        before,
        after if action.active else ForeseenRuns(),
        action.uid or "",
        start=now,
        end=now + COMPARED,
    )


def _find_old(
    connection: sa.Connection, app: str, action: ScheduledActionModel
) -> sa.Row[Any] | None:
    try:
        if action.uid is not None:
            return get_action(connection, action.uid, app=app)
        return find_action(connection, action.name, app=app)
    except NotFoundError:
        return None


def _foresee_events(
    connection: sa.Connection, app: str, rule: EventRule, now: datetime
) -> ForeseenRuns:
    """Return the runs to which the events so far will lead."""
    found = fetch_rule_events(
        connection, app, [rule], now, now + COMPARED, limit=MOST_EVENTS
    )
    due: defaultdict[str, set[datetime]] = defaultdict(set)
    last = None
    for event in found:
        occurrence = rule.get_occurrence(event)
        if occurrence is None:
            continue
        last = occurrence
        if now <= occurrence < now + COMPARED:
            due[event.user_id].add(occurrence)
    users = sorted(due)
    who = rule.action.recipients
    kept = {
        user.id
        for start in range(0, len(users), _CHUNK)
        for user in fetch_users(connection, app, users[start : start + _CHUNK])
        if keeps_triggering_user(who, user, now=now)
    }
    return ForeseenRuns(
        by_user={user: due[user] for user in users if user in kept},
        complete_until=last if len(found) == MOST_EVENTS else None,
    )
