"""
Remove old rows in batches, but no row that is still needed to recognize a repetition.

An occurrence is decided only once because its operation's id exists. So the row must
stay as long as the occurrence could be decided again. That is the case if it is at or
after its action's ``next_due_at``, where the next tick begins to look, however long the
scheduler was down.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from models.database.engine import reading, writing
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

#: The row of the scheduler's lease carries the fence, which must never start again.
SCHEDULER_LEASE = "scheduler"


class DatabasePrune:
    """Implements :class:`operations.ports.Prune`."""

    def __init__(self, engine: sa.Engine) -> None:
        """Take the engine of the worker's own process."""
        self._engine = engine

    def prune_operations(
        self, *, before: datetime, limit: int, below_minute: bool = False
    ) -> int:
        """
        Remove at most *limit* operations that were final before *before*.

        Steps and delivery marks go with them.

        Args:
            below_minute: Only what the rules of actions made that are due more often
                than once a minute.
        """
        undecided = sa.exists().where(
            scheduled_actions.c.uid == operations.c.action_uid,
            scheduled_actions.c.deleted_at.is_(None),
            scheduled_actions.c.next_due_at <= operations.c.occurrence,
        )
        old = sa.select(operations.c.id).where(
            operations.c.recorded_at < before,
            operations.c.state.in_(sorted(FINAL_STATES)),
            sa.func.coalesce(operations.c.finished_at, operations.c.recorded_at)
            < before,
            ~undecided,
        )
        if below_minute:
            # By the index of an action's occurrences, for few of all are theirs.
            old = old.where(
                operations.c.action_uid.in_(self._find_below_minute()),
                operations.c.occurrence < before,
                operations.c.trigger == Trigger.SCHEDULE,
            ).limit(limit)
        else:
            old = old.order_by(operations.c.recorded_at).limit(limit)
        # it may have been reopened by a retry since we looked
        still = operations.c.state.in_(sorted(FINAL_STATES))
        return self._delete_found(operations, old, still)

    def _find_below_minute(self) -> list[str]:
        """Return the uids of the actions that are due more often than once a minute."""
        kept = scheduled_actions.c
        are_tasks = kept.queue == Queue.TASKS, kept.timing.is_not(None)
        query = sa.select(kept.timing).where(*are_tasks).distinct()
        with reading(self._engine) as connection:
            timings = connection.scalars(query)
            few = [each for each in timings if _is_below_minute(each)]
            uids = sa.select(kept.uid).where(*are_tasks, kept.timing.in_(few))
            return list(connection.scalars(uids))

    def prune_revisions(self, *, before: datetime, limit: int) -> int:
        """
        Remove at most *limit* revisions that were replaced before *before*.

        Revisions that an operation refers to are kept, and so is the one that was in
        effect at *before*: ``why`` and ``audit`` need the time since then.
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
        old = (
            sa.select(revision.c.uid, revision.c.revision)
            .where(revision.c.recorded_at < before, replaced, ~needed, ~out)
            .order_by(revision.c.uid, revision.c.revision)
            .limit(limit)
        )
        return self._delete_found(revision, old)

    def prune_events(self, *, before: datetime, limit: int) -> int:
        """
        Remove at most *limit* events that happened and were recorded before *before*.

        An event that an action waits for (``after``, with a delay) is kept longer, by
        that delay.
        """
        with reading(self._engine) as connection:
            waiting = connection.execute(
                sa.select(
                    scheduled_actions.c.app,
                    scheduled_actions.c.event,
                    scheduled_actions.c.delay,
                )
                .where(
                    scheduled_actions.c.event.is_not(None),
                    scheduled_actions.c.deleted_at.is_(None),
                )
                .distinct()
            ).all()
        cutoffs: dict[tuple[str, str], datetime] = {}
        for app, name, delay in waiting:
            cutoff = before if delay is None else before - Delay.parse(delay).longest
            cutoffs[app, name] = min(cutoff, cutoffs.get((app, name), before))
        kept_longer = [
            sa.and_(events.c.app == app, events.c.name == name, events.c.at >= cutoff)
            for (app, name), cutoff in cutoffs.items()
            if cutoff < before
        ]
        old = (
            sa.select(events.c.id)
            .where(
                events.c.at < before,
                events.c.recorded_at < before,
                *(~condition for condition in kept_longer),
            )
            .limit(limit)
        )
        return self._delete_found(events, old)

    def prune_mail_contents(self, *, before: datetime, limit: int) -> int:
        """
        Remove at most *limit* contents that no mail has had since *before*.

        Mails themselves go with their operations.
        """
        used = sa.exists().where(deliveries.c.content == mail_contents.c.digest)
        old = (
            sa.select(mail_contents.c.digest)
            .where(mail_contents.c.used_at < before, ~used)
            .order_by(mail_contents.c.used_at)
            .limit(limit)
        )
        # a mail of the same content may have begun since we looked
        still = mail_contents.c.used_at < before
        return self._delete_found(mail_contents, old, still)

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

    def prune_answers(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* answers to requests that came before *before*."""
        kept = idempotency_keys.c
        old = (
            sa.select(kept.caller, kept.key)
            .where(kept.created_at < before)
            .order_by(kept.created_at)
            .limit(limit)
        )
        # the key may have been used again since we looked
        return self._delete_found(idempotency_keys, old, kept.created_at < before)

    def prune_sign_ins(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* links and sessions that expired before *before*."""
        old = (
            sa.select(sign_ins.c.digest)
            .where(sign_ins.c.expires_at < before)
            .order_by(sign_ins.c.expires_at)
            .limit(limit)
        )
        return self._delete_found(sign_ins, old)

    def prune_bulk_changes(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* bulk changes that ended before *before*."""
        return self._prune_ended(bulk_changes, before, limit)

    def prune_backfills(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* backfills that ended before *before*."""
        return self._prune_ended(backfills, before, limit)

    def _prune_ended(self, table: sa.Table, before: datetime, limit: int) -> int:
        kept = table.c
        old = (
            sa.select(kept.id)
            # What ended was made before; the index is of when it was made.
            .where(kept.created_at < before, kept.finished_at < before)
            .order_by(kept.created_at)
            .limit(limit)
        )
        return self._delete_found(table, old)

    def _delete_found(
        self, table: sa.Table, found: sa.Select[Any], *still: sa.ColumnElement[bool]
    ) -> int:
        """
        Delete the rows of *table* that *found* selects the keys of; return how many.

        PostgreSQL may run an uncorrelated subquery more than once, with a different
        batch each time; a list of keys does not change.

        Args:
            table: Where they are.
            found: Selects columns of *table* that identify a row.
            still: What must be so of each row at the deletion, too.
        """
        key = sa.tuple_(*found.selected_columns)
        with writing(self._engine) as connection:
            keys = [tuple(row) for row in connection.execute(found)]
            if not keys:
                return 0
            deletion = sa.delete(table).where(key.in_(keys), *still)
            return connection.execute(deletion).rowcount


def _is_below_minute(timing: str) -> bool:
    try:
        return TimingModel.model_validate_json(timing).is_below_minute
    except ValueError:
        return False  # unreadable, and in quarantine
