"""
One tick: fetch what is due, decide, hand the decisions over, report.

Every collaborator is an argument; time comes in as ``now``. Whatever goes wrong
with one action stays with that action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from actions.decide import decide_time
from actions.decide_events import EventCandidate, decide_event
from actions.due import ActionRevision, DueAction
from actions.store import (
    TURNS_AHEAD,
    fetch_due,
    fetch_events,
    fetch_turns,
    get_revision,
)
from actions.when.cron import LOOKBACK
from models.database import reading
from models.decision import Decision
from models.errors import MinutehandError
from telemetry import ACTIONS_QUARANTINED, Event

log = structlog.get_logger()

#: Actions decided, recorded and sent together: enough that a transaction costs
#: each of them little, and few enough that it ends long before any deadline.
CHUNK = 1000

#: Of the first chunk; each is twice the one before, up to CHUNK. The first message
#: of a large tick leaves within a tenth of a second.
FIRST_CHUNK = 125


#: An action that could not be decided, and why, for its admin.
Bad = tuple[ActionRevision, str]


@dataclass(slots=True)
class TickReport:
    """What a tick did."""

    now: datetime
    due: int = 0
    recorded: int = 0
    sent: int = 0
    quarantined: list[Bad] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What became of one chunk of decisions."""

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
    Decide every occurrence that is due by *now*, the small apps taking turns.

    Args:
        now: Aware UTC, the database's clock, read once for the whole tick.

        engine: To read what is due.

        dispatch: Records decisions (and quarantines), commits, and sends.

        lookback: Older occurrences go to ``catch_up``.

        chunk: Actions handed over at a time.

    Raises:
        LeadershipLostError, UnreachableError: From *dispatch* or the database; what
            was handed over before stays, the rest is found by the next tick.
    """
    report = TickReport(now)
    memo: dict[object, tuple[tuple[datetime, ...], datetime | None]] = {}
    for uids in _take_turns(engine, now, chunk):
        due, bad = _read(engine, uids, now)
        decisions: list[Decision] = []
        for action, events, next_event_at in due:
            try:
                if action.event is None:
                    decision = decide_time(
                        action, now=now, lookback=lookback, memo=memo
                    )
                else:
                    decision = decide_event(
                        action,
                        events,
                        now=now,
                        lookback=lookback,
                        next_event_at=next_event_at,
                    )
                decisions.append(decision)
            except Exception as error:
                # One bad action must not stop the others: its admin sees why.
                log.exception(Event.ACTION_QUARANTINED, action_uid=action.uid)
                bad.append(_make_bad(action.uid, action.revision, error))
        ACTIONS_QUARANTINED.inc(len(bad))
        done = dispatch(decisions, bad)
        report.due += len(decisions) + len(bad)
        report.recorded += done.recorded
        report.sent += done.sent
        report.quarantined += bad
    return report


_Due = tuple[DueAction, Sequence[EventCandidate], datetime | None]


def _read(
    engine: sa.Engine, uids: Sequence[str], now: datetime
) -> tuple[list[_Due], list[Bad]]:
    """Read what is due of *uids*; one by one if one of them cannot be read."""
    try:
        return _read_together(engine, uids, now), []
    except MinutehandError:
        raise
    except Exception:  # noqa: BLE001 - which of them it was is found out below
        due: list[_Due] = []
        bad: list[Bad] = []
    for uid in uids:
        try:
            due += _read_together(engine, [uid], now)
        except MinutehandError:
            raise
        except Exception as error:
            log.exception(Event.ACTION_QUARANTINED, action_uid=uid)
            with reading(engine) as connection:
                revision = get_revision(connection, uid)
            bad.append(_make_bad(uid, revision, error))
    return due, bad


def _read_together(engine: sa.Engine, uids: Sequence[str], now: datetime) -> list[_Due]:
    with reading(engine) as connection:
        actions = fetch_due(connection, uids, now=now)
        waiting = [each for each in actions if each.event is not None]
        events, following = fetch_events(connection, waiting, now=now)
    return [(a, events.get(a.uid, ()), following.get(a.uid)) for a in actions]


def _make_bad(uid: str, revision: int, error: Exception) -> Bad:
    return ActionRevision(uid, revision), f"{type(error).__name__}: {error}"


def _take_turns(
    engine: sa.Engine, now: datetime, chunk: int
) -> Iterator[Sequence[str]]:
    """Yield uids in chunks until nothing is due; each uid is offered once."""
    offered: set[str] = set()
    size = min(FIRST_CHUNK, chunk)
    while True:
        with reading(engine) as connection:
            ahead = fetch_turns(connection, now=now)
        # What is due still (it changed while we looked) waits for the next tick.
        uids = [uid for uid in ahead if uid not in offered]
        start = 0
        while start < len(uids):
            yield uids[start : start + size]
            start += size
            size = min(2 * size, chunk)
        if not uids or len(ahead) < TURNS_AHEAD:
            return
        offered.update(uids)
