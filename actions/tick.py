"""
One tick: fetch what is due, decide, hand the decisions over, report.

Every collaborator is an argument, and so is the time (``now``). An error in one action
does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol

import sqlalchemy as sa
import structlog
from pydantic import ValidationError

from actions.clock_set_back import drop_decided, skip_decided
from actions.decide import ActionRevision, DueAction, EventCandidate, Memo, decide
from actions.due_rows import (
    FIRST_TURNS,
    fetch_due,
    fetch_due_revisions,
    fetch_events,
    fetch_first_turns,
    fetch_look,
    stream_turns,
)
from models.database.engine import reading
from models.decision import Decision
from models.errors import LockedError, MinutehandError, RuleError
from models.fields.strict_model import say
from models.occurrence import LOOKBACK
from telemetry import ACTIONS_QUARANTINED, Event

log = structlog.get_logger()

#: The most actions decided, recorded and sent together: enough to share the cost of a
#: transaction, and few enough that it ends long before any deadline.
CHUNK = 1000

#: Size of the first chunk; each following one is twice as large, up to CHUNK. So the
#: first message of a large tick leaves within a tenth of a second.
FIRST_CHUNK = 50

#: Errors that are not one action's fault: lost leadership, an unreachable database, a
#: schema or a statement that is wrong for all actions.
_NOT_OF_ONE_ACTION = (
    MinutehandError,
    sa.exc.InternalError,
    sa.exc.NotSupportedError,
    sa.exc.ProgrammingError,
)


@dataclass(slots=True)
class TickReport:
    """
    What a tick did.

    Args:
        now: The instant that it decided up to, aware UTC.
        lookback: How old an occurrence might be, and simply ran.
        due: How many actions were due.
        recorded: How many operations were recorded.
        sent: How many messages the broker took.
        locked: How many actions were left out, since another session keeps their rows
            locked; the next tick goes on.
        quarantined: Actions put into quarantine, each with the reason for its admin.
        is_cut: Whether it gave way before all was decided; the next tick goes on.
    """

    now: datetime
    lookback: timedelta = LOOKBACK
    due: int = 0
    recorded: int = 0
    sent: int = 0
    locked: int = 0
    quarantined: list[tuple[ActionRevision, str]] = field(default_factory=list)
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Dispatched:
    """
    What became of one chunk: how many operations were recorded, and how many were sent.

    Args:
        locked: How many actions were left out, since their rows are locked.
    """

    recorded: int
    sent: int
    locked: int = 0


class Dispatching(Protocol):
    """
    What becomes of decisions; see dispatch/dispatcher.py.

    A chunk is dispatched, which waits for everything, or it is launched and landed:
    then the next one is decided meanwhile.
    """

    def dispatch(self, decisions: Sequence[Decision]) -> Dispatched:
        """Record *decisions*, commit, and send."""

    def quarantine(self, action: ActionRevision, reason: str) -> None:
        """Put *action* where it stops no other, and send what waits."""

    def launch(
        self, decisions: Sequence[Decision], *, land: Callable[[], None]
    ) -> None:
        """Begin to record *decisions*, and meanwhile *land* what flies."""

    def hand_over(self) -> None:
        """Send what landed before the last launch."""

    def land(self) -> Dispatched:
        """Wait until what was launched is recorded; its messages are sent later."""

    def finish(self) -> int:
        """Send what is not sent yet; return how many were sent."""


def run_tick(
    now: datetime,
    *,
    engine: sa.Engine,
    dispatcher: Dispatching,
    lookback: timedelta = LOOKBACK,
    chunk: int = CHUNK,
    is_over: Callable[[], bool] = lambda: False,
) -> TickReport:
    """
    Decide every occurrence that is due by *now*; small apps take turns.

    Args:
        now: Aware UTC, by the database's clock, read once for the whole tick.
        engine: Reads what is due.
        dispatcher: Records decisions and quarantines, commits, and sends.
        lookback: Older occurrences are subject to ``catch_up``.
        chunk: The most actions passed to *dispatcher* at a time.
        is_over: Whether it has to give way; the next tick finds what this one leaves.
            Asked after each chunk.

    Raises:
        LeadershipLostError, UnreachableError: From *dispatcher* or the database. Chunks
            that were dispatched before stay so; the next tick finds the rest.
    """
    tick = _Tick(TickReport(now, lookback), engine, dispatcher)
    with closing(_take_turns(engine, now, chunk)) as turns:
        for uids in islice(turns, 1):
            tick.settle(uids)  # waits, so that the first message leaves at once
        for uids in turns:
            tick.launch(uids)
            if is_over():
                tick.report.is_cut = True
                break
    tick.land()
    tick.report.sent += dispatcher.finish()
    return tick.report


def run_look(
    now: datetime,
    *,
    since: datetime,
    engine: sa.Engine,
    dispatcher: Dispatching,
    lookback: timedelta = LOOKBACK,
    chunk: int = CHUNK,
) -> TickReport:
    """
    Decide what is due between two ticks: tasks that need no worker, at their second.

    Args:
        now: Aware UTC, by the database's clock.
        since: When the last tick was, aware UTC. What it left is for the next one.
        engine: As for ``run_tick``, as all that follows.
        chunk: The most actions of a look; the next one finds the others.

    Raises:
        LeadershipLostError, UnreachableError: As ``run_tick``.
    """
    tick = _Tick(TickReport(now, lookback), engine, dispatcher)
    with reading(engine) as connection:
        uids = fetch_look(connection, since=since, now=now, limit=chunk)
    if uids:
        tick.settle(uids)
    return tick.report


@dataclass(slots=True)
class _Tick:
    """
    A tick under way.

    Args:
        memo: What actions with the same timing share.
        flying: The uids of what was launched and has not landed.
    """

    report: TickReport
    engine: sa.Engine
    dispatcher: Dispatching
    memo: Memo = field(default_factory=dict)
    flying: Sequence[str] = ()

    def settle(self, uids: Sequence[str]) -> None:
        """Decide and dispatch *uids*; on an error, by halves to find the culprit."""
        try:
            decisions = self._decide(uids)
            self._count(len(decisions), self.dispatcher.dispatch(decisions))
        except _NOT_OF_ONE_ACTION:
            raise
        except Exception as error:
            # One bad action must not stop the others, and its admin must see why.
            with reading(self.engine) as connection:
                left = fetch_due_revisions(connection, uids, now=self.report.now)
            if not left:
                raise  # all are recorded, so the error came after that
            if len(left) == 1:
                log.exception(Event.ACTION_QUARANTINED, action_uid=left[0].uid)
                self._quarantine(left[0], _describe(error))
                return
            half = len(left) // 2
            self.settle([action.uid for action in left[:half]])
            self.settle([action.uid for action in left[half:]])

    def launch(self, uids: Sequence[str]) -> None:
        """Decide *uids*, land what flies, and let them fly."""
        with self._settling(uids):
            decisions = self._decide(uids)
            if not decisions:
                return  # somebody paused or changed all of them meanwhile
            self.dispatcher.launch(decisions, land=self.land)
            self.flying = [decision.action_uid for decision in decisions]
        if self.flying:
            try:
                self.dispatcher.hand_over()
            except Exception:
                self.land()  # or whether it was recorded would be anybody's guess
                raise

    def land(self) -> None:
        """Wait for what flies; an error is of that chunk, which is settled then."""
        uids, self.flying = self.flying, ()
        if uids:
            with self._settling(uids):
                self._count(len(uids), self.dispatcher.land())

    @contextmanager
    def _settling(self, uids: Sequence[str]) -> Iterator[None]:
        """Settle *uids* after an error that may be the fault of one of them."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, LockedError):  # what is locked is left out now
                if isinstance(error, _NOT_OF_ONE_ACTION):
                    raise
                log.exception(Event.FLIGHT_FAILED, actions=len(uids))
            self.land()
            self.settle(uids)

    def _decide(self, uids: Sequence[str]) -> list[Decision]:
        now, lookback = self.report.now, self.report.lookback
        return [
            decide(*each, now=now, lookback=lookback, memo=self.memo)
            for each in _read(self.engine, uids, now, lookback)
        ]

    def _quarantine(self, action: ActionRevision, reason: str) -> None:
        self.dispatcher.quarantine(action, reason)
        ACTIONS_QUARANTINED.inc()
        self.report.due += 1
        self.report.quarantined.append((action, reason))

    def _count(self, due: int, done: Dispatched) -> None:
        self.report.due += due
        self.report.recorded += done.recorded
        self.report.sent += done.sent
        self.report.locked += done.locked


_Due = tuple[DueAction, Sequence[EventCandidate], datetime | None]


def _read(
    engine: sa.Engine, uids: Sequence[str], now: datetime, lookback: timedelta
) -> list[_Due]:
    before = now - lookback
    with reading(engine) as connection:
        actions = fetch_due(connection, uids, now=now)
        actions = skip_decided(connection, actions, before=before)
        waiting = [each for each in actions if each.event is not None]
        events, following = fetch_events(connection, waiting, now=now)
        events = drop_decided(connection, waiting, events, before=before)
    return [(a, events.get(a.uid, ()), following.get(a.uid)) for a in actions]


def _describe(error: Exception) -> str:
    """Describe an error without SQLAlchemy's parameters, which name other actions."""
    if isinstance(error, ValidationError | RuleError):
        return say(error)
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return f"{type(cause).__name__}: {cause}".replace("\0", "\\0")


def _take_turns(
    engine: sa.Engine, now: datetime, chunk: int
) -> Generator[Sequence[str]]:
    """
    Yield the uids of what is due, in chunks; each comes once.

    To find the turns of a million takes seconds, and of the longest due no time: so the
    first chunk is of these.
    """
    size = min(FIRST_CHUNK, chunk)
    with reading(engine) as connection:
        ahead = fetch_first_turns(connection, now=now)
    if ahead:
        yield ahead[:size]
    # An action that changed meanwhile and is due again waits for the next tick.
    offered = frozenset(ahead[:size])
    is_all = len(ahead) < FIRST_TURNS
    found = (uid for uid in ahead) if is_all else stream_turns(engine, now=now)
    with closing(found) as turns:
        rest = (uid for uid in turns if uid not in offered)
        while uids := list(islice(rest, size := min(2 * size, chunk))):
            yield uids
