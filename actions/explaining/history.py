"""Fetch what explanations and audits need: revisions, decisions, events, last tick."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import sqlalchemy as sa

from actions.explaining.recorded import (
    ActionHistory,
    EventRule,
    FormerAction,
    RecordedEvent,
    RecordedOperation,
    Revision,
    read_event_rule,
)
from actions.explaining.why import History
from actions.lease import get_last_tick_at
from models.database.engine import read_clock, reading
from models.database.lists import belongs_to
from models.database.tables import (
    DELETED_ACTIONS,
    TROUBLED,
    events,
    installation,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
    small_apps,
)
from models.errors import NotFoundError
from models.fields.delay import Delay
from models.occurrence import LONGEST_LOOKBACK, make_after_id
from models.operation_state import ENDINGS, OperationState, Reason, Trigger

_revised = scheduled_action_revisions.c
_REVISION = (
    *(_revised.uid, _revised.revision, _revised.change, _revised.recorded_at),
    *(_revised.timing, _revised.active),
    *(_revised.effective_from, _revised.undecided_from),
    # Time-driven revisions have a timing instead, and there may be many of them.
    sa.case((_revised.timing.is_(None), _revised.document)),
    *(_revised.changed_by, _revised.note),
)
_OPERATION = tuple(operations.c[each.name] for each in fields(RecordedOperation))


def fetch_history(
    connection: sa.Connection,
    uid: str,
    *,
    since: datetime,
    until: datetime,
    app: str | None = None,
) -> History:
    """
    Return all revisions of an action, and its decisions about ``[since, until)``.

    Args:
        uid: Of an action, deleted or not.
        since: Aware.
        until: Aware.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There has never been an action with this uid.
    """
    history, app = _fetch_known(connection, uid, app, until)
    query = (
        sa.select(*_OPERATION)
        .where(operations.c.action_uid == uid, _concerns(since, until))
        .order_by(operations.c.occurrence)
    )
    return replace(
        history,
        operations=tuple(_fetch_operations(connection, query)),
        events=_fetch_events(connection, app, history.revisions, since, until),
    )


def fetch_bounded_history(
    connection: sa.Connection,
    uid: str,
    *,
    app: str | None,
    within: tuple[datetime, datetime],
    after: tuple[datetime, str] | None,
    limit: int,
) -> History:
    """
    Return all revisions of an action, and its first decisions about occurrences.

    Runs that somebody asked for are left out: they are no occurrences.

    Args:
        uid: Of an action, deleted or not.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.
        within: Aware; the first is inclusive, the second exclusive.
        after: Occurrence, and id of the user or "", after which to begin. None: at
            the first of *within*.
        limit: The most decisions to return, beside those that overlap that one.

    Raises:
        NotFoundError: There has never been such an action.
    """
    since, until = within
    history, owner = _fetch_known(connection, uid, app, until)
    kept = operations.c
    of_action = (kept.action_uid == uid, kept.trigger != Trigger.MANUAL)
    query = (
        sa.select(*_OPERATION)
        .where(*of_action, kept.occurrence >= since, kept.occurrence < until)
        .order_by(kept.occurrence, sa.func.coalesce(kept.user_id, ""))
        .limit(limit)
    )
    if after is not None:
        key = sa.tuple_(kept.occurrence, sa.func.coalesce(kept.user_id, ""))
        query = query.where(key > sa.tuple_(*after))
    # A range of occurrences that did not run may begin before.
    missed = sa.and_(
        TROUBLED.of(),
        kept.state == OperationState.MISSED,
        kept.finished_at >= since,
        kept.occurrence < since,
    )
    queries = [
        sa.select(*_OPERATION).where(*of_action, missed).limit(limit),
        sa.select(*_OPERATION).where(*of_action, _overtaken(since, since)).limit(limit),
        query,
    ]
    found = (_fetch_operations(connection, each) for each in queries)
    return replace(
        history,
        operations=tuple(chain.from_iterable(found)),
        events=_fetch_events(
            connection, owner, history.revisions[-1:], since, until, limit=10 * limit
        ),
    )


def _fetch_known(
    connection: sa.Connection, uid: str, app: str | None, until: datetime
) -> tuple[History, str]:
    """Return what is known of an action but for its decisions; and its app."""
    kept = scheduled_actions.c
    # When its own pause ends, the action stays paused with its app or the installation.
    with_app = small_apps.c.uid == kept.app, small_apps.c.paused_at.is_not(None)
    with_all = sa.exists().where(installation.c.paused_at.is_not(None))
    held = kept.pause_scope.is_(None) & (sa.exists().where(*with_app) | with_all)
    query = sa.select(
        *(kept.app, kept.name, kept.follows, kept.quarantine_reason, kept.next_due_at),
        sa.case((sa.and_(kept.paused_at.is_not(None), ~held), kept.paused_until)),
    ).where(kept.uid == uid, *belongs_to(app, kept.app))
    action = connection.execute(query).one_or_none()
    if action is None:
        raise NotFoundError(f"there is no scheduled action {uid!r}")
    rows = connection.execute(
        sa.select(*_REVISION).where(_revised.uid == uid).order_by(_revised.revision)
    )
    revisions = tuple(Revision(*row[1:]) for row in rows)
    history = History(
        uid=uid,
        name=action.name,
        quarantine_reason=action.quarantine_reason,
        revisions=revisions,
        operations=(),
        last_tick_at=get_last_tick_at(connection),
        now=read_clock(connection),
        next_due_at=action.next_due_at,
        paused_until=action[-1],
        former=_fetch_former(connection, action.follows, until),
    )
    return history, action.app


def _fetch_former(
    connection: sa.Connection, uid: str | None, until: datetime
) -> FormerAction | None:
    """Return the action *uid*, and its latest run *until* an instant."""
    if uid is None:
        return None
    kept = scheduled_actions.c
    query = sa.select(kept.name, kept.deleted_at).where(kept.uid == uid)
    name, deleted_at = connection.execute(query).one()
    latest = (
        sa.select(*_OPERATION)
        .where(operations.c.action_uid == uid, operations.c.occurrence < until)
        .order_by(operations.c.occurrence.desc())
        .limit(1)
    )
    runs = _fetch_operations(connection, latest)
    return FormerAction(name, deleted_at, next(runs, None))


def _fetch_operations(
    connection: sa.Connection, query: sa.Select[Any]
) -> Iterator[RecordedOperation]:
    for row in connection.execute(query):
        yield RecordedOperation(**row._asdict())


#: The most actions that an audit reads in one transaction.
_BATCH = 500

#: A run that is followed ended so long after its occurrence, or is not looked at.
_RUNS_WITHIN = timedelta(days=7)

#: The most decisions that it holds in memory, unless a single action has more.
_DECISIONS = 20_000


def fetch_histories(
    engine: sa.Engine,
    *,
    since: datetime,
    until: datetime,
    app: str | None = None,
    batch: int = _BATCH,
    decisions: int = _DECISIONS,
) -> Iterator[ActionHistory]:
    """
    Yield every action with its decisions about ``[since, until)``, app by app.

    All that is held of the others meanwhile is their uids. They are read in batches.
    The transaction of a batch ends before its first action is yielded, so a slow caller
    neither blocks others nor runs into a time limit for idle transactions.

    Args:
        since: Aware, inclusive.
        until: Aware, exclusive.
        app: Uid of a small app. None: all apps.
        batch: The most actions of one transaction.
        decisions: The most decisions of one transaction, unless one action has more.
    """
    with reading(engine) as connection:
        uids = _fetch_uids(connection, app)
    while uids:
        with reading(engine) as connection:
            chosen = _choose(connection, uids[:batch], since, until, decisions)
            histories = _fetch_batch(connection, chosen, since, until)
        yield from histories
        uids = uids[len(chosen) :]


def _fetch_uids(connection: sa.Connection, app: str | None) -> Sequence[str]:
    kept = scheduled_actions.c
    query = sa.select(kept.uid).order_by(kept.app, kept.uid)
    if app is not None:
        # Those that were deleted have an index of their own, and so have the others.
        is_deleted = DELETED_ACTIONS.of(scheduled_actions.name)
        query = query.where(
            sa.or_(
                sa.and_(kept.app == app, kept.deleted_at.is_(None)),
                sa.and_(kept.app == app, is_deleted),
            )
        )
    return connection.scalars(query).all()


def _choose(
    connection: sa.Connection,
    uids: Sequence[str],
    since: datetime,
    until: datetime,
    decisions: int,
) -> Sequence[str]:
    """Return the first of *uids* whose actions have at most *decisions* together."""
    rows = connection.execute(
        sa.select(operations.c.action_uid, sa.func.count().label("decided"))
        .where(operations.c.action_uid.in_(uids), _concerns(since, until))
        .group_by(operations.c.action_uid)
    )
    counts = {row.action_uid: row.decided for row in rows}
    total = 0
    for number, uid in enumerate(uids):
        total += counts.get(uid, 0)
        if total > decisions and number > 0:
            return uids[:number]
    return uids


def _fetch_batch(
    connection: sa.Connection, uids: Sequence[str], since: datetime, until: datetime
) -> list[ActionHistory]:
    kept = scheduled_actions.c
    query: sa.Select[Any] = (
        sa.select(kept.uid, kept.app, kept.catch_up, kept.follows, kept.delay)
        .where(kept.uid.in_(uids))
        .order_by(kept.app, kept.uid)
    )
    actions = connection.execute(query).all()
    revisions: dict[str, list[Revision]] = defaultdict(list)
    for row in connection.execute(
        sa.select(*_REVISION)
        .where(_revised.uid.in_(uids))
        .order_by(_revised.uid, _revised.revision)
    ):
        revisions[row.uid].append(Revision(*row[1:]))
    decided: dict[str, list[RecordedOperation]] = defaultdict(list)
    of_them = sa.select(*_OPERATION).where(
        operations.c.action_uid.in_(uids), _concerns(since, until)
    )
    for operation in _fetch_operations(connection, of_them):
        decided[operation.action_uid].append(operation)
    return [
        ActionHistory(
            *(each.uid, each.app, revisions[each.uid], decided[each.uid]),
            _fetch_events(connection, each.app, revisions[each.uid], since, until),
            each.catch_up != "none",
            _fetch_unfollowed(connection, each, since, until),
        )
        for each in actions
    ]


def _fetch_unfollowed(
    connection: sa.Connection, action: sa.Row[Any], since: datetime, until: datetime
) -> list[RecordedOperation]:
    """Return ends that may have led to occurrences in the period, and did not."""
    if action.follows is None:
        return []
    kept = operations.c
    begin = since - Delay.parse(action.delay).longest
    query = (
        sa.select(*_OPERATION)
        .where(
            kept.action_uid == action.follows,
            *(kept.occurrence >= begin - _RUNS_WITHIN, kept.occurrence < until),
            *(kept.finished_at >= begin, kept.finished_at < until),
            kept.state.in_(sorted(ENDINGS["end"])),
            # what is canceled after a restore is left to an operator
            sa.func.coalesce(kept.reason, "").not_like(f"{Reason.RESTORED}%"),
        )
        .order_by(kept.occurrence)
    )
    ended = _fetch_operations(connection, query)
    by_id = {make_after_id(action.uid, each.id): each for each in ended}
    ids = list(by_id)
    for start in range(0, len(ids), _BATCH):
        part = ids[start : start + _BATCH]
        for known in connection.scalars(sa.select(kept.id).where(kept.id.in_(part))):
            del by_id[known]
    return list(by_id.values())


def _fetch_events(
    connection: sa.Connection,
    app: str,
    revisions: Sequence[Revision],
    since: datetime,
    until: datetime,
    *,
    limit: int | None = None,
) -> tuple[RecordedEvent, ...]:
    """Return the events that may lead to occurrences in ``[since, until)``."""
    rules = filter(None, (read_event_rule(each.document) for each in revisions))
    return fetch_rule_events(connection, app, list(rules), since, until, limit=limit)


def fetch_rule_events(
    connection: sa.Connection,
    app: str,
    rules: Sequence[EventRule],
    since: datetime,
    until: datetime,
    *,
    limit: int | None,
) -> tuple[RecordedEvent, ...]:
    """
    Return the events of *app* that may lead to occurrences in ``[since, until)``.

    Args:
        rules: Any number of rules of its actions.
        since: Aware.
        until: Aware.
        limit: The most events, oldest first. None: all.
    """
    if not rules:
        return ()
    longest = max(rule.delay.longest for rule in rules)
    rows = connection.execute(
        sa.select(events.c.name, events.c.user_id, events.c.at, events.c.recorded_at)
        .where(
            events.c.app == app,
            events.c.name.in_(sorted({rule.event for rule in rules})),
            events.c.at >= since - longest,
            events.c.at < until,
        )
        .order_by(events.c.at, events.c.user_id)
        .limit(limit)
    )
    return tuple(RecordedEvent(*row) for row in rows)


def _concerns(since: datetime, until: datetime) -> sa.ColumnElement[bool]:
    """Match decisions about ``[since, until)``, and ranges that may overlap it."""
    occurrence = operations.c.occurrence
    # Such a row has the first occurrence of its range, which may lie far back.
    return sa.or_(
        sa.and_(occurrence >= since, occurrence < until),
        sa.and_(operations.c.state == OperationState.MISSED, occurrence < until),
        _overtaken(since, until),
    )


def _overtaken(since: datetime, until: datetime) -> sa.ColumnElement[bool]:
    """Match rows of overtaken occurrences that may overlap a period."""
    occurrence, reason = operations.c.occurrence, operations.c.reason
    begin = since - LONGEST_LOOKBACK  # no range is longer
    return sa.and_(reason == Reason.OVERTAKEN, occurrence >= begin, occurrence < until)
