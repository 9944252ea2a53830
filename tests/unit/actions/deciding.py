"""Actions that are due, and ticks that follow each other without a database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from actions.decide import DueAction, EventCandidate, decide_event, decide_time
from models.decision import Decision, NewOperation
from models.door.documents import read_action_object
from models.fields.delay import join_delay
from models.occurrence import LOOKBACK
from models.operation_state import OperationState, Overlap, Queue
from models.timing import make_timing, timing_text
from models.when import AfterEventModel, OnEventModel
from tests.scheduling import MONDAY, make_document


def make_action(
    when: object, *, next_due_at: datetime = MONDAY, **changes: Any
) -> DueAction:
    """Return the action with this ``when`` as the tick reads it."""
    action = read_action_object(make_document(when=when, **changes))
    timing = make_timing(action, holidays={}, created_at=MONDAY)
    event, delay = None, None
    if isinstance(action.when, OnEventModel):
        event, delay = action.when.on, join_delay(None, action.when.at)
    elif isinstance(action.when, AfterEventModel):
        event = action.when.after
        delay = join_delay(action.when.delay, action.when.at)
    zone = "UTC" if event is None else action.when.timezone  # type: ignore[union-attr]  # one kind
    return DueAction(
        uid=action.uid or "uid",
        app="app",
        name=action.name,
        revision=3,
        queue=Queue.QUICK,
        overlap=Overlap.ALLOW,
        attempts_allowed=3,
        expected_after_s=None,
        timing=None if timing is None else timing_text(timing),
        event=event,
        delay=delay,
        zone=zone,
        catch_up=action.catch_up.runs,
        catch_up_within=action.catch_up.within,
        effective_from=next_due_at,
        next_due_at=next_due_at,
        starts_at=None if event is None else action.starts_at,
        ends_at=None if event is None else action.ends_at,
        wakes=4,
    )


def decide(
    action: DueAction, now: datetime, *, lookback: timedelta = LOOKBACK
) -> Decision:
    """Decide a time-driven *action* at *now*, with a memo of its own."""
    return decide_time(action, now=now, lookback=lookback, memo={})


def decide_on(
    action: DueAction,
    now: datetime,
    *candidates: EventCandidate,
    next_event_at: datetime | None = None,
) -> Decision:
    """Decide an event-driven *action* at *now*."""
    return decide_event(
        action, candidates, now=now, lookback=LOOKBACK, next_event_at=next_event_at
    )


def ran(operations: Iterable[NewOperation]) -> list[datetime]:
    """Return the occurrences that are to run."""
    return [o.occurrence for o in operations if o.state is OperationState.PENDING]


def missed(
    operations: Iterable[NewOperation], state: OperationState = OperationState.MISSED
) -> list[tuple[datetime, datetime, int, bool]]:
    """Return first, last, count and "more" of the rows for several occurrences."""
    return [
        (
            datetime.fromisoformat(str(o.details["first"])),
            datetime.fromisoformat(str(o.details["last"])),
            int(str(o.details["count"])),
            bool(o.details["more"]),
        )
        for o in operations
        if o.state is state and o.details is not None
    ]


@dataclass
class Ticks:
    """What a row and the operations table would hold after some ticks."""

    action: DueAction | None
    operations: list[NewOperation] = field(default_factory=list)

    def tick(self, now: datetime) -> None:
        """Decide at *now* if the action is due, as the tick does."""
        if self.action is None or self.action.next_due_at > now:
            return
        decision = decide(self.action, now)
        self.operations += decision.operations
        if decision.next_due_at is None:
            self.action = None
        else:
            self.action = self.action._replace(next_due_at=decision.next_due_at)

    def run(self, instants: Sequence[datetime]) -> list[NewOperation]:
        """Tick at each of *instants*; return all that was decided."""
        for now in instants:
            self.tick(now)
        return self.operations
