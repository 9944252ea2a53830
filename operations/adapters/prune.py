"""
Remove old rows in batches, but no row that is still needed to recognize a repetition.

An occurrence is decided only once because its operation's id exists. So the row must
stay as long as the occurrence could be decided again. That is the case if it is at or
after its action's ``next_due_at``, where the next tick begins to look, however long the
scheduler was down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from models.database.engine import writing
from models.database.tables import (
    backfills,
    bulk_changes,
    deliveries,
    events,
    idempotency_keys,
    leaderships,
    leases,
    mail_contents,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
    sign_ins,
)
from models.fields.delay import Delay
from models.operation_state import FINAL_STATES, Queue, Trigger
from models.revision import EXITS, Change
from models.when import TimingModel
from operations.ports import Prunable

#: The row of the scheduler's lease carries the fence, which must never start again.
SCHEDULER_LEASE = "scheduler"


#: What identifies old rows of one table; and what must still be so of each when it is
#: removed, for it may be in use again since we looked.
_Old = tuple[sa.Select[Any], sa.ColumnElement[bool] | None]


class DatabasePrune:
    """Implements :class:`operations.ports.Prune`."""

    def __init__(self, engine: sa.Engine) -> None:
        """Take the engine of the worker's own process."""
        self._engine = engine

    def prune(self, kind: Prunable, *, before: datetime, limit: int) -> int:
        """
        Remove at most *limit* rows that are older than *before*; return how many.

        PostgreSQL may run an uncorrelated subquery more than once, with a different
        batch each time; a list of keys does not change.
        """
        with writing(self._engine) as connection:
            old, still = _FINDERS[kind](connection, before)
            keys = [tuple(row) for row in connection.execute(old.limit(limit))]
            if not keys:
                return 0
            first, *_ = columns = old.selected_columns
            deletion = sa.delete(first.table).where(
                # SQLite looks up no pairs by an index, but the first of each.
                first.in_({key[0] for key in keys}),
                sa.tuple_(*columns).in_(keys),
            )
            if still is not None:
                deletion = deletion.where(still)
            return connection.execute(deletion).rowcount

    def prune_leases(self, *, before: datetime) -> int:
        """
        Remove leases that expired before *before*, except the scheduler's.

        Also remove the records of leaderships that began before *before*.
        """
        statement = sa.delete(leases).where(
            leases.c.expires_at < before, leases.c.name != SCHEDULER_LEASE
        )
        newest = sa.select(sa.func.max(leaderships.c.fence)).scalar_subquery()
        old = sa.delete(leaderships).where(
            leaderships.c.acquired_at < before, leaderships.c.fence < newest
        )
        with writing(self._engine) as connection:
            removed = connection.execute(statement).rowcount
            return removed + connection.execute(old).rowcount


def _find_operations(_connection: sa.Connection, before: datetime) -> _Old:
    old, still = _find_final(before)
    return old.order_by(operations.c.recorded_at), still


def _find_operations_below_minute(connection: sa.Connection, before: datetime) -> _Old:
    kept = scheduled_actions.c
    are_tasks = kept.queue == Queue.TASKS, kept.timing.is_not(None)
    timings = connection.scalars(sa.select(kept.timing).where(*are_tasks).distinct())
    few = [each for each in timings if _is_below_minute(each)]
    uids = connection.scalars(
        sa.select(kept.uid).where(*are_tasks, kept.timing.in_(few))
    )
    old, still = _find_final(before)
    # By the index of an action's occurrences, for few of all are theirs.
    theirs = old.where(
        operations.c.action_uid.in_(list(uids)),
        operations.c.occurrence < before,
        operations.c.trigger == Trigger.SCHEDULE,
    )
    return theirs, still


def _find_final(before: datetime) -> _Old:
    """Find what is final; it may have been reopened by a retry since we looked."""
    undecided = sa.exists().where(
        scheduled_actions.c.uid == operations.c.action_uid,
        scheduled_actions.c.deleted_at.is_(None),
        scheduled_actions.c.next_due_at <= operations.c.occurrence,
    )
    is_final = operations.c.state.in_(sorted(FINAL_STATES))
    ended_at = sa.func.coalesce(operations.c.finished_at, operations.c.recorded_at)
    old = sa.select(operations.c.id).where(
        operations.c.recorded_at < before, is_final, ended_at < before, ~undecided
    )
    return old, is_final


def _is_below_minute(timing: str) -> bool:
    try:
        return TimingModel.model_validate_json(timing).is_below_minute
    except ValueError:
        return False  # unreadable, and in quarantine


def _find_revisions(_connection: sa.Connection, before: datetime) -> _Old:
    """
    Find those that were replaced, and that no operation refers to.

    The one that was in effect at *before* stays: ``why`` and ``audit`` need the time
    since then.
    """
    revision = scheduled_action_revisions
    newer = revision.alias("newer")
    replaced = sa.exists().where(
        newer.c.uid == revision.c.uid,
        newer.c.revision > revision.c.revision,
        newer.c.recorded_at < before,
    )
    needed = sa.exists().where(
        operations.c.action_uid == revision.c.uid,
        operations.c.action_revision == revision.c.revision,
    )
    # A pause may last long; why and audit look for the revision that began it.
    out = revision.c.change.in_(sorted({*EXITS, Change.RESUMED}))
    key = revision.c.uid, revision.c.revision
    is_old = revision.c.recorded_at < before, replaced, ~needed, ~out
    return sa.select(*key).where(*is_old).order_by(*key), None


def _find_events(connection: sa.Connection, before: datetime) -> _Old:
    """Find those that no action waits for, with its delay (``after``)."""
    kept = scheduled_actions.c
    waiting = connection.execute(
        sa.select(kept.app, kept.event, kept.delay)
        .where(kept.event.is_not(None), kept.deleted_at.is_(None))
        .distinct()
    )
    cutoffs: dict[tuple[str, str], datetime] = {}
    for app, name, delay in waiting:
        cutoff = before if delay is None else before - Delay.parse(delay).longest
        cutoffs[app, name] = min(cutoff, cutoffs.get((app, name), before))
    kept_longer = [
        sa.and_(events.c.app == app, events.c.name == name, events.c.at >= cutoff)
        for (app, name), cutoff in cutoffs.items()
        if cutoff < before
    ]
    is_old = events.c.at < before, events.c.recorded_at < before
    return sa.select(events.c.id).where(*is_old, *map(sa.not_, kept_longer)), None


def _find_mails(_connection: sa.Connection, before: datetime) -> _Old:
    """Find contents that no mail has; mails themselves go with their operations."""
    used = sa.exists().where(deliveries.c.content == mail_contents.c.digest)
    # a mail of the same content may have begun since we looked
    is_old = mail_contents.c.used_at < before
    old = sa.select(mail_contents.c.digest).where(is_old, ~used)
    return old.order_by(mail_contents.c.used_at), is_old


def _find_answers(_connection: sa.Connection, before: datetime) -> _Old:
    kept = idempotency_keys.c
    # the key may have been used again since we looked
    is_old = kept.created_at < before
    old = sa.select(kept.caller, kept.key).where(is_old).order_by(kept.created_at)
    return old, is_old


def _find_sign_ins(_connection: sa.Connection, before: datetime) -> _Old:
    ended = sign_ins.c.expires_at
    return sa.select(sign_ins.c.digest).where(ended < before).order_by(ended), None


def _find_ended(table: sa.Table, _connection: sa.Connection, before: datetime) -> _Old:
    kept = table.c
    # What ended was made before; the index is of when it was made.
    old = sa.select(kept.id).where(kept.created_at < before, kept.finished_at < before)
    return old.order_by(kept.created_at), None


_FINDERS: Mapping[Prunable, Callable[[sa.Connection, datetime], _Old]] = {
    "operations": _find_operations,
    "operations_below_minute": _find_operations_below_minute,
    "revisions": _find_revisions,
    "mails": _find_mails,
    "events": _find_events,
    "answers": _find_answers,
    "sign_ins": _find_sign_ins,
    "bulk_changes": partial(_find_ended, bulk_changes),
    "backfills": partial(_find_ended, backfills),
}
