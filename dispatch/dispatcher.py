"""
Record, commit, send: how decisions become messages.

Decisions are recorded first, in one transaction under the leader's fence, and sent
after the commit. If we crash in between, the recorded rows are sent later, under the
same ids. In the opposite order, a run could be lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import attrgetter

import sqlalchemy as sa
import structlog

import tracing
from actions.decide import ActionRevision
from actions.due_rows import ask_advance, quarantine
from actions.lease import Leader, LeadershipLostError
from actions.tick import Dispatched
from dispatch.locked_rows import LockedRows, split
from dispatch.outbox import Outbox
from models.database.engine import read_clock, writing
from models.database.tables import operations, scheduled_actions
from models.database.transaction import AtOnce, Flight, Transaction, departing
from models.decision import Decision, NewOperation, read_missed
from models.errors import LockedError
from models.occurrence import make_longer_missed_id
from models.operation import RecipientFilterModel
from models.operation_state import OperationState, Reason, Trigger
from operations.adapters.app_users import fetch_users
from operations.recipients import keeps_triggering_user
from operations.record import ask_record
from operations.rescue import reclaim_lost_workers, resend_lost_messages
from operations.sending.order import Message
from telemetry import OCCURRENCES_RECORDED, OPERATIONS_RESCUED, Event

log = structlog.get_logger()

_GET_UID = attrgetter("action_uid")

#: The name in metrics of each state in which an operation is recorded.
DECISIONS = {
    OperationState.PENDING: "dispatched",
    OperationState.SKIPPED: "skipped",
    OperationState.MISSED: "missed",
}


@dataclass(slots=True)
class _Written:
    """What a transaction recorded and found; to be read when it is committed."""

    recorded: Callable[[], Counter[OperationState]]
    found: Callable[[], Sequence[Message]]
    locked: int
    span: tracing.TraceSpan

    def count_recorded(self) -> int:
        """Return how many operations were recorded, and count them by decision."""
        recorded = self.recorded()
        for state, count in recorded.items():
            OCCURRENCES_RECORDED.labels(DECISIONS[state]).inc(count)
        self.span.note(recorded=recorded.total())
        self.span.end()
        return recorded.total()


def _find_nothing() -> Sequence[Message]:
    return ()


@dataclass(slots=True)
class Dispatcher:
    """
    The writing half of a leader.

    A chunk of decisions is dispatched, or it flies: ``launch`` sends its transaction to
    the database, ``hand_over`` the messages of the chunk before to the broker, and
    ``land`` waits for the database. So that records one chunk while this process sends
    one and decides another.
    A message is only ever made of what is committed; that it was sent is written down
    by a later transaction, and until then we know it here.

    Args:
        leader: Checked inside every transaction.
        outbox: Sends what is recorded.
    """

    engine: sa.Engine
    leader: Leader
    outbox: Outbox
    locked: LockedRows = field(default_factory=LockedRows)
    #: The leadership that all below belongs to.
    _fence: int | None = None
    _flying: tuple[Flight, _Written] | None = None
    #: What is being launched.
    _departing: Flight | None = None
    #: Chooses what to send of the chunk that has landed.
    _choose_landed: Callable[[], Sequence[Message]] = _find_nothing
    #: What is to be handed over while the next chunk flies.
    _ready: Sequence[Message] = ()
    _sent: int = 0

    def dispatch(self, decisions: Sequence[Decision]) -> Dispatched:
        """
        Record *decisions*, commit, and send.

        Actions whose rows another session keeps locked are left out.

        Raises:
            LeadershipLostError: Nothing was written.
            UnreachableError: The database is away; nothing was written. (A broker
                that is away is not an error here: the operations are sent later.)
        """
        self.drop()
        self._go_on_leading()
        written = self.locked.do_without(partial(self._record, decisions))
        recorded = written.count_recorded()
        return Dispatched(recorded, self._send_all(written.found()), written.locked)

    def _record(self, decisions: Sequence[Decision]) -> _Written:
        with writing(self.engine) as connection:
            return self._write(AtOnce(connection), decisions)

    def quarantine(self, action: ActionRevision, reason: str) -> None:
        """
        Put *action* into quarantine, commit, and send some of what waits.

        Args:
            action: As it was read; if it has changed since, or another session keeps it
                locked, it stays as it is.
            reason: For its admin.

        Raises:
            LeadershipLostError, UnreachableError: As ``dispatch``.
        """
        self.drop()
        self._go_on_leading()
        with self._leading() as connection:
            quarantine(connection, action, reason, now=read_clock(connection))
        # What was dropped when it failed would wait for the next look otherwise.
        self._sent += self.send_waiting()

    def launch(
        self, decisions: Sequence[Decision], *, land: Callable[[], None]
    ) -> None:
        """
        Begin to record *decisions*, and choose what to send of the chunk before.

        Args:
            decisions: Of one chunk.
            land: Lands what flies, while the database moves on the actions of this
                chunk.

        Raises:
            LeadershipLostError, UnreachableError: As ``dispatch``.
            LockedError: Some rows are locked, and left out of what is launched next.
            RuntimeError: *land* has dispatched something, and so dropped this chunk.
        """
        self._go_on_leading()
        try:
            self._launch(decisions, land)
        except LockedError as error:
            self.locked.leave_out(error)
            raise

    def _launch(self, decisions: Sequence[Decision], land: Callable[[], None]) -> None:
        with departing(self.engine) as flight:
            self._departing = flight

            def choose_landed() -> None:
                land()
                if self._departing is not flight:
                    raise RuntimeError("dropped, for the chunk before it did not land")
                # Taken from here: after an error, it is for the next look to find.
                choose, self._choose_landed = self._choose_landed, _find_nothing
                self._ready = choose()

            written = self._write(flight, decisions, choose_landed)
        self._departing = None
        self._flying = flight, written

    def hand_over(self) -> None:
        """Send what landed before the last launch."""
        ready, self._ready = self._ready, ()
        self._sent += self.outbox.send(ready)

    def _hand_over_tasks(self) -> None:
        """Give couriers their part of what is ready: they keep nobody waiting."""
        sent, self._ready = self.outbox.send_tasks(self._ready)
        self._sent += sent

    def land(self) -> Dispatched:
        """
        Wait for what was launched.

        Returns:
            How many operations it recorded, and how many messages were sent since the
            landing before.

        Raises:
            UnreachableError: The database is away. What it committed is sent later.
        """
        assert self._flying is not None, "launch first"
        (flight, written), self._flying = self._flying, None
        flight.land()
        self._choose_landed = written.found
        sent, self._sent = self._sent, 0
        return Dispatched(written.count_recorded(), sent, written.locked)

    def finish(self) -> int:
        """
        Send and mark what has landed; return how many were sent.

        Raises:
            LeadershipLostError, UnreachableError: As ``dispatch``.
        """
        choose, self._choose_landed = self._choose_landed, _find_nothing
        sent, self._sent = self._sent, 0
        sent += self._send_all(choose())
        self.locked.end_tick()
        return sent

    def send_waiting(self) -> int:
        """
        Send a part of what waits, the oldest first, and mark the part before as sent.

        Returns:
            How many messages were handed to the broker; 0: nothing may be sent now, and
            all that was sent is marked.

        Raises:
            LeadershipLostError, UnreachableError: As ``dispatch``.
        """
        self.drop()
        if not self._hold():
            return 0
        look = self.locked.do_without(self._look)
        sent = self.outbox.send(look())
        if not sent:
            self._write_news()  # such as why the broker took nothing
        return sent

    def _look(self) -> Callable[[], Sequence[Message]]:
        with self._leading() as connection:
            transaction = AtOnce(connection)
            confirm = self.outbox.mark(transaction, self.locked)
            self.outbox.prepare(connection)
            return self.outbox.look(transaction, confirm)

    def rescue(self) -> int:
        """
        Make operations pending that lost their worker or message; return how many.

        Raises:
            LeadershipLostError, UnreachableError: As ``dispatch``.
        """
        with self._leading() as connection:
            returned, failed = reclaim_lost_workers(connection)
        self.outbox.forget_share()
        empty = self.outbox.find_empty_queues()
        with self._leading() as connection:
            resent = resend_lost_messages(connection, empty_queues=empty)
        if returned or failed or resent:
            log.warning(
                Event.OPERATION_RESCUED,
                workers_lost=returned,
                failed=failed,
                messages_lost=resent,
            )
            OPERATIONS_RESCUED.labels("pending").inc(returned + resent)
            OPERATIONS_RESCUED.labels("failed").inc(failed)
        return returned + failed + resent

    def _write(
        self,
        transaction: Transaction,
        decisions: Sequence[Decision],
        choose_landed: Callable[[], object] = _find_nothing,
    ) -> _Written:
        """
        Record *decisions* under the fence, and look into the outbox.

        Args:
            choose_landed: Chooses what is ready of the chunk before.

        Returns:
            What is written, to be read when it is committed.
        """
        span = tracing.begin("flight", due=len(decisions))
        check = self.leader.ask_check(transaction)
        uids = map(_GET_UID, decisions)
        held = self.locked.find(transaction, scheduled_actions.c.uid, uids)
        free, _left = split(decisions, _GET_UID, held)
        advanced = ask_advance(transaction, free)
        choose_landed()  # while the database is at it
        # Before what is new is recorded: a run that a mark ends is in nobody's way.
        confirm = self.outbox.mark(transaction, self.locked)
        transaction.wait(self._hand_over_tasks)
        fence, moved = check(), advanced()
        new = [
            operation
            for decision in free
            if decision.action_uid in moved
            for operation in decision.operations
        ]
        self.outbox.prepare(transaction.connection)
        wanted = _keep_wanted(transaction.connection, new)
        wanted = _name_longer_outages(transaction.connection, wanted)
        recorded = ask_record(transaction, wanted, fence=fence)

        def read_recorded() -> Sequence[NewOperation]:
            # If some were there before, their rows may differ from what we decided.
            return wanted if recorded().total() == len(wanted) else ()

        # Asked along with it, because the query costs less than a transaction.
        found = self.outbox.look(
            transaction, confirm, beside=len(self._ready), recorded=read_recorded
        )
        return _Written(recorded, found, len(held), span)

    def _send_all(self, found: Sequence[Message]) -> int:
        """Send and mark *found*; whatever else waits is for the upkeep."""
        sent = self.outbox.send(found)
        self._write_news()
        return sent

    def _write_news(self) -> None:
        if self.outbox.has_news:
            self.locked.do_without(self._mark)()

    def _mark(self) -> Callable[[], None]:
        with self._leading() as connection:
            confirm = self.outbox.mark(AtOnce(connection), self.locked)
            self.outbox.prepare(connection)
        return confirm

    def drop(self) -> None:
        """
        Drop what flies or has landed: the look of a transaction finds it again.

        Asks nothing of the database. To be called when a tick fails: what flies has a
        session, and may have locks for which even our own lease would wait.
        """
        if self._flying is not None:
            flight, _written = self._flying
            self._flying = None
            flight.abandon()
        if self._departing is not None:
            # or its locks would be in the way of what is done in its place
            self._departing.abandon()
            self._departing = None
        self._choose_landed = _find_nothing
        self._ready = ()

    @contextmanager
    def _leading(self) -> Iterator[sa.Connection]:
        """Give a transaction in which we lead."""
        with writing(self.engine) as connection:
            self.leader.check(connection)
            yield connection

    def _go_on_leading(self) -> None:
        led_as = self.leader.fence
        # If the lease ran out and was taken again, this is another leadership: another
        # scheduler may have led in between and decided the same, and more.
        if not self._hold() or self.leader.fence != led_as:
            msg = "the lease ran out while these decisions were made"
            raise LeadershipLostError(msg)

    def _hold(self) -> bool:
        holds = self.leader.hold()
        if self.leader.fence != self._fence:
            self._fence = self.leader.fence
            self.drop()
            self.outbox.forget()
        return holds


def _keep_wanted(
    connection: sa.Connection, new: Sequence[NewOperation]
) -> Sequence[NewOperation]:
    """
    Drop the operations of users whom the action's recipients exclude.

    On an event-driven action, the recipients filter the triggering users.
    """
    by_app: dict[str, set[str]] = defaultdict(set)
    for row in new:
        if row.trigger is Trigger.EVENT and row.user_id is not None:
            by_app[row.app].add(row.user_id)
    if not by_app:
        return new
    now = read_clock(connection)
    users = {
        (app, user.id): user
        for app, ids in by_app.items()
        for user in fetch_users(connection, app, ids)
    }
    filters = _fetch_filters(connection, {row.action_uid for row in new})

    def is_wanted(row: NewOperation) -> bool:
        if row.trigger is not Trigger.EVENT or row.user_id is None:
            return True
        user = users.get((row.app, row.user_id))
        asked = filters.get(row.action_uid)
        return user is not None and keeps_triggering_user(asked, user, now=now)

    return [row for row in new if is_wanted(row)]


def _fetch_filters(
    connection: sa.Connection, uids: set[str]
) -> dict[str, RecipientFilterModel]:
    """Return the recipients of each event-driven action of *uids* that has some."""
    kept = scheduled_actions.c
    rows = connection.execute(
        sa.select(kept.uid, kept.document["recipients"]).where(
            kept.uid.in_(uids), kept.event.is_not(None)
        )
    )
    return {
        uid: RecipientFilterModel.model_validate(found)
        for uid, found in rows
        if found is not None
    }


def _name_longer_outages(
    connection: sa.Connection, new: Sequence[NewOperation]
) -> Sequence[NewOperation]:
    """Let a range be recorded that begins as one that is recorded, and ends later."""
    ranges = [row for row in new if row.details]
    if not ranges:
        return new
    kept = operations.c
    recorded = connection.execute(
        sa.select(kept.id, kept.action_uid, kept.occurrence, kept.details).where(
            kept.action_uid.in_({row.action_uid for row in ranges}),
            kept.occurrence.in_({row.occurrence for row in ranges}),
            kept.reason.in_((Reason.OUTAGE, Reason.OVERTAKEN)),
        )
    ).all()
    ids = {row.id for row in recorded}
    ends: dict[tuple[str, datetime], datetime] = {}
    for row in recorded:
        if (missed := read_missed(row.details)) is not None:
            begins = row.action_uid, row.occurrence
            ends[begins] = max(ends.get(begins, missed.last), missed.last)

    def name(row: NewOperation) -> NewOperation:
        missed = read_missed(row.details)
        if row.id not in ids or missed is None:
            return row
        if missed.last <= ends[row.action_uid, row.occurrence]:
            return row
        return row._replace(id=make_longer_missed_id(row.id, missed.last))

    return [name(row) for row in new]
