"""By when an action expects its runs to have ended, and how long they take. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from models.fields.duration import recall_elapsed
from models.operation_state import FINAL_STATES, OperationState, Trigger
from models.units import format_age

#: Runs that have a time by which they are wanted; others are runs when they are.
_TIMED = frozenset({Trigger.SCHEDULE, Trigger.EVENT, Trigger.ACTION})

#: Final states of what did run.
_RAN = frozenset({OperationState.SUCCEEDED, OperationState.FAILED})

#: A run that has not begun is looked at no sooner than so long after the last look.
_LEAST_PAUSE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Expectation:
    """
    What ``expect`` says.

    Args:
        within: From the time of an occurrence to the end of its run. None: any time.
        takes: From the first start of a run to its end. None: as long as it takes.
    """

    within: timedelta | None = None
    takes: timedelta | None = None

    @property
    def first_look_s(self) -> float | None:
        """Seconds after its time at which a run is looked at first. None: never."""
        given = [each for each in (self.within, self.takes) if each is not None]
        return min(given).total_seconds() if given else None


def read_expectation(document: Mapping[str, Any]) -> Expectation:
    """
    Return what the stored *document* of an action expects.

    >>> read_expectation({"expect": {"takes": "PT10M"}}).first_look_s
    600.0
    """
    asked = document.get("expect") or {}
    bounds = (recall_elapsed(asked.get(each)) for each in ("within", "takes"))
    return Expectation(*bounds)


def expect_at(since: datetime, after_s: float | None) -> datetime | None:
    """Return when a run is looked at first: ``first_look_s`` since *since*."""
    return None if after_s is None else since + timedelta(seconds=after_s)


class RunTimes(NamedTuple):
    """A run as its row has it; instants are aware UTC."""

    trigger: str
    state: str
    occurrence: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Judgement(NamedTuple):
    """
    Whether a run keeps to what is expected.

    Args:
        late: What it does not keep to, in words. None: it does, so far.
        look_at: When to look again, aware UTC. None: there is nothing more to see.
    """

    late: str | None = None
    look_at: datetime | None = None


def judge(expected: Expectation, run: RunTimes, *, now: datetime) -> Judgement:
    """
    Judge a run at *now* (aware UTC).

    Returns:
        Of two bounds that are over, the one that was over first.
    """
    is_final = OperationState(run.state) in FINAL_STATES
    if is_final and OperationState(run.state) not in _RAN:
        return Judgement()
    bounds = []
    if expected.within is not None and run.trigger in _TIMED:
        words = f"not ended within {format_age(expected.within)} of its time"
        bounds.append((run.occurrence + expected.within, words))
    if expected.takes is not None and run.started_at is not None:
        words = f"took more than {format_age(expected.takes)}"
        bounds.append((run.started_at + expected.takes, words))
    # What ends at the very instant has kept to it.
    ended_at = (is_final and run.finished_at) or now + timedelta.resolution
    passed = min((each for each in bounds if each[0] < ended_at), default=None)
    if passed is not None:
        return Judgement(late=passed[1])
    if is_final:
        return Judgement()
    looks = [at for at, _words in bounds]
    if expected.takes is not None and run.started_at is None:
        looks.append(now + max(expected.takes, _LEAST_PAUSE))
    return Judgement(look_at=min(looks, default=None))


def tell_late(late: str | None, state: str) -> str | None:
    """
    Say that a run is late, or was, on every face. None: it is not.

    >>> tell_late("took more than 10 min", "running")
    'late: took more than 10 min'
    >>> tell_late("took more than 10 min", "succeeded")
    'late: took more than 10 min; ended after all'
    """
    if late is None:
        return None
    ended = "; ended after all" if OperationState(state) in FINAL_STATES else ""
    return f"late: {late}{ended}"
