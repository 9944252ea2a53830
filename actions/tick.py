"""
One tick: fetch what is due, decide, hand the decisions over, report.

Every collaborator is an argument, and so is the time (``now``). An error in one action
does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog
from pydantic import ValidationError

from actions.decide import Memo, decide_time
from actions.decide_events import EventCandidate, decide_event
from actions.due_action import ActionRevision, DueAction
from actions.due_rows import (
    TURNS_AHEAD,
    fetch_due,
    fetch_due_revisions,
    fetch_events,
    fetch_turns,
)
from models.database.engine import reading
from models.decision import Decision
from models.errors import MinutehandError, RuleError
from models.fields.strict_model import say
from models.occurrence import LOOKBACK
from telemetry import ACTIONS_QUARANTINED, Event

log = structlog.get_logger()

#: The most actions decided, recorded and sent together: enough to share the cost of a
#: transaction, and few enough that it ends long before any deadline.
CHUNK = 1000

#: Size of the first chunk; each following one is twice as large, up to CHUNK. So the
#: first message of a large tick leaves within a tenth of a second.
FIRST_CHUNK = 125


#: An action that could not be decided or recorded, and why, for its admin.
Bad = tuple[ActionRevision, str]

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

        due: How many actions were due.

        recorded: How many operations were recorded.

        sent: How many messages the broker took.

        quarantined: Actions put into quarantine, each with the reason.
    """

    now: datetime
    due: int = 0
    recorded: int = 0
    sent: int = 0
    quarantined: list[Bad] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """How many operations of one chunk were recorded, and how many were sent."""

    recorded: int
    sent: int


Dispatch = Callable[[Sequence[Decision], Sequence[Bad]], Dispatched]


def run_tick(
    now: datetime,
    *,
    engine: sa.Engine,
    dispatch: Dispatch,
    lookback: timedelta = LOOKBACK,
    chunk: int = CHUNK,
) -> TickReport:
    """
    Decide every occurrence that is due by *now*; small apps take turns.

    Args:
        now: Aware UTC, by the database's clock, read once for the whole tick.

        engine: Reads what is due.

        dispatch: Records decisions and quarantines, commits, and sends.

        lookback: Older occurrences are subject to ``catch_up``.

        chunk: The most actions passed to *dispatch* at a time.

    Raises:
        LeadershipLostError, UnreachableError: From *dispatch* or the database. Chunks
            that were dispatched before stay so; the next tick finds the rest.
    """
    report = TickReport(now)
    memo: Memo = {}

    def settle(uids: Sequence[str]) -> None:
        """Decide and dispatch *uids*; on an error, by halves to find the culprit."""
        try:
            decisions = [
                _decide(*each, now=now, lookback=lookback, memo=memo)
                for each in _read(engine, uids, now)
            ]
            done = dispatch(decisions, ())
        except _NOT_OF_ONE_ACTION:
            raise
        except Exception as error:
            # One bad action must not stop the others, and its admin must see why.
            left = _read_left(engine, uids, now)
            if not left:
                raise  # all are recorded, so the error came after that
            if len(left) > 1:
                half = len(left) // 2
                settle([action.uid for action in left[:half]])
                settle([action.uid for action in left[half:]])
                return
            log.exception(Event.ACTION_QUARANTINED, action_uid=left[0].uid)
            bad = (left[0], _describe(error))
            done = dispatch((), (bad,))
            ACTIONS_QUARANTINED.inc()
            report.quarantined.append(bad)
            report.due += 1
        else:
            report.due += len(decisions)
        report.recorded += done.recorded
        report.sent += done.sent

    for uids in _take_turns(engine, now, chunk):
        settle(uids)
    return report


_Due = tuple[DueAction, Sequence[EventCandidate], datetime | None]


def _read(engine: sa.Engine, uids: Sequence[str], now: datetime) -> list[_Due]:
    with reading(engine) as connection:
        actions = fetch_due(connection, uids, now=now)
        waiting = [each for each in actions if each.event is not None]
        events, following = fetch_events(connection, waiting, now=now)
    return [(a, events.get(a.uid, ()), following.get(a.uid)) for a in actions]


def _read_left(
    engine: sa.Engine, uids: Sequence[str], now: datetime
) -> list[ActionRevision]:
    with reading(engine) as connection:
        return fetch_due_revisions(connection, uids, now=now)


def _decide(
    action: DueAction,
    events: Sequence[EventCandidate],
    next_event_at: datetime | None,
    *,
    now: datetime,
    lookback: timedelta,
    memo: Memo,
) -> Decision:
    if action.event is None:
        return decide_time(action, now=now, lookback=lookback, memo=memo)
    return decide_event(
        action, events, now=now, lookback=lookback, next_event_at=next_event_at
    )


def _describe(error: Exception) -> str:
    """Describe an error without SQLAlchemy's parameters, which name other actions."""
    if isinstance(error, ValidationError | RuleError):
        return say(error)
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return f"{type(cause).__name__}: {cause}".replace("\0", "\\0")


def _take_turns(
    engine: sa.Engine, now: datetime, chunk: int
) -> Iterator[Sequence[str]]:
    """Yield uids in chunks until nothing more is due; each uid comes once."""
    offered: set[str] = set()
    size = min(FIRST_CHUNK, chunk)
    while True:
        with reading(engine) as connection:
            ahead = fetch_turns(connection, now=now)
        # An action that changed meanwhile and is due again waits for the next tick.
        uids = [uid for uid in ahead if uid not in offered]
        start = 0
        while start < len(uids):
            yield uids[start : start + size]
            start += size
            size = min(2 * size, chunk)
        if not uids or len(ahead) < TURNS_AHEAD:
            return
        offered.update(uids)
