"""
How long an operation took, how long runs usually take, and how fast a step is.

What an operation took is the time in which it ran, everywhere, not that in which it
waited: one that failed and was run again hours later did not take hours, and they say
nothing of how long its next run will take.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import JsonValue
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from models.database.lists import belongs_to
from models.database.sql_time import seconds_between
from models.database.tables import CLAIMED_HEAVY, operation_steps, operations
from models.operation_state import OperationState, StepState
from models.units import format_age, format_bytes
from operations.domains import Reached

_step = operation_steps.c

#: Key in the details of an operation: its attempts that ended without success.
ATTEMPTS_KEY = "attempts"

_ENDED = (StepState.SUCCEEDED, StepState.FAILED)


def seconds_taken(
    kept: ReadOnlyColumnCollection[str, Any] = operations.c,
) -> sa.ColumnElement[float]:
    """
    SQL expression: the seconds that an operation ran; null if it has not ended.

    From its start to its end, if it ran once. Otherwise only what its steps took that
    ended, each in the last attempt at it: nobody waits for what lies between attempts.

    Args:
        kept: The columns of ``operations``, or of a query that has all that are used.
    """
    steps = operation_steps.c
    of_steps = (
        sa.select(sa.func.sum(seconds_between(steps.started_at, steps.finished_at)))
        .where(steps.operation_id == kept.id, steps.state.in_(_ENDED))
        .scalar_subquery()
    )
    # What had to wait for the platform was tried before, although it does not count.
    ran_once = sa.and_(
        kept.attempt <= 1, kept.details[ATTEMPTS_KEY].as_string().is_(None)
    )
    return sa.case(
        (sa.or_(kept.started_at.is_(None), kept.finished_at.is_(None)), sa.null()),
        (ran_once, seconds_between(kept.started_at, kept.finished_at)),
        else_=of_steps,
    )


def read_taken(seconds: float | None) -> timedelta | None:
    """Return what ``seconds_taken`` found."""
    return None if seconds is None else timedelta(seconds=seconds)


#: Number of latest operations from which an estimate is made.
RUNS = 20

#: How people describe an app while such a step runs.
_VERBS = {"publish": "being published", "refresh": "being refreshed"}


@dataclass(frozen=True, slots=True)
class Working:
    """
    The heavy operation of a small app that a worker runs.

    Args:
        verb: ``being published``, ``being refreshed``, or ``at work``.
        since: When its current step began, aware UTC. None: no step runs.
    """

    operation_id: UUID = field(metadata={"serialization_alias": "operation"})
    action_uid: str
    verb: str = field(metadata={"serialization_alias": "what"})
    since: datetime | None


def fetch_working(
    connection: sa.Connection, app: str | None = None
) -> dict[str, Working]:
    """Return the heavy operation of each small app (or only *app*), by app."""
    running = sa.and_(
        _step.operation_id == operations.c.id, _step.state == StepState.RUNNING
    )
    kept = operations.c
    rows = connection.execute(
        sa.select(kept.app, kept.id, kept.action_uid, _step.name, _step.started_at)
        .join_from(operations, operation_steps, running, isouter=True)
        .where(CLAIMED_HEAVY.of(), *belongs_to(app))
    )
    return {
        owner: Working(id_, uid, _VERBS.get(name, "at work"), since)
        for owner, id_, uid, name, since in rows
    }


@dataclass(frozen=True, slots=True)
class Usual:
    """How long a step took before: the median of the latest successes."""

    took: timedelta
    runs: int


@dataclass(frozen=True, slots=True)
class UsualRun:
    """How long runs took before: in all, and each step; of how many runs."""

    run: timedelta | None = None
    steps: Mapping[str, Usual] = field(default_factory=dict)
    runs: int = 0


def fetch_usual(
    connection: sa.Connection, action_uids: Iterable[str]
) -> dict[str, UsualRun]:
    """
    Return how long runs of each action, and their steps, took: medians.

    Of the successes among the latest RUNS operations of each action; a step may have
    succeeded in one that failed.
    """
    chosen = sorted(set(action_uids))
    if not chosen:
        return {}
    kept = operations.c
    # One query for each action, in one statement: each is served by the index, while a
    # window would look at all that the actions ever ran.
    latest = sa.union_all(
        *(
            sa.select(
                sa.select(
                    *(kept.id, kept.action_uid, kept.state),
                    seconds_taken().label("taken_s"),
                )
                .where(kept.action_uid == uid)
                .order_by(kept.occurrence.desc())
                .limit(RUNS)
                .subquery()
            )
            for uid in chosen
        )
    )
    runs = {row.id: row for row in connection.execute(latest)}
    # In a statement of its own: joined, PostgreSQL would go through all of them for
    # each step that there is, as long as nothing has analyzed the table.
    steps = connection.execute(
        sa.select(_step.operation_id, _step.name, _step.started_at, _step.finished_at)
        .where(_step.operation_id.in_(runs), _step.state == StepState.SUCCEEDED)
        .where(_step.started_at.is_not(None), _step.finished_at.is_not(None))
    )
    took: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    whole: dict[str, dict[UUID, float]] = defaultdict(dict)
    for operation_id, name, started_at, finished_at in steps:
        run = runs[operation_id]
        took[run.action_uid][name].append((finished_at - started_at).total_seconds())
        if run.state == OperationState.SUCCEEDED:
            whole[run.action_uid][operation_id] = run.taken_s
    return {
        uid: UsualRun(
            _find_median(whole[uid].values()) if whole[uid] else None,
            {
                name: Usual(_find_median(each), len(each))
                for name, each in took[uid].items()
            },
            len(whole[uid]),
        )
        for uid in chosen
    }


def _find_median(seconds: Iterable[float]) -> timedelta:
    return timedelta(seconds=median(seconds))


#: Seconds before a rate is told: the first bytes come from buffers.
_FIRST_RATE_S = 1.0

#: Longest time left that is told; beyond it, a rate says nothing of the end.
_LONGEST_LEFT_S = 7 * 86_400


@dataclass(slots=True)
class Pace:
    """Measures one part of a step after the other; each begins at its first point."""

    _part: tuple[str, str, str] | None = None
    _began_at: float = 0.0
    _began_done: int = 0
    _done: int = 0

    def measure(
        self, note: str, reached: Reached, *, at: float
    ) -> dict[str, JsonValue]:
        """
        Return how far and how fast the part is.

        Args:
            note: What is read; another note, work or unit is another part.
            reached: How far it is. What falls behind an earlier point is ignored.
            at: Seconds of a clock that never jumps.

        Returns:
            ``doing``, ``unit``, ``done``, ``total`` (None: unknown), ``per_second`` and
            ``seconds_left`` (None: not known yet, or never).
        """
        part = (note, reached.doing, reached.unit)
        if part != self._part:
            self._part, self._began_at = part, at
            self._began_done = self._done = reached.done
        self._done = max(self._done, reached.done)
        took, read = at - self._began_at, self._done - self._began_done
        rate = None if took < _FIRST_RATE_S else read / took
        left = None
        if rate and reached.total is not None:
            seconds = max(0, reached.total - self._done) / rate
            left = math.ceil(seconds) if seconds <= _LONGEST_LEFT_S else None
        return {
            "doing": reached.doing,
            "unit": reached.unit,
            "done": self._done,
            "total": reached.total,
            "per_second": None if rate is None else round(rate, 1),
            "seconds_left": left,
        }


def describe_part(note: str, reached: Reached, measured: dict[str, JsonValue]) -> str:
    """
    Return *measured* for people, in the place of *note*.

    >>> half = Reached("download", 6 << 20, 12 << 20, "bytes")
    >>> describe_part("sales", half, {"per_second": 3 << 20, "seconds_left": 2})
    'sales: download 6 MiB of 12 MiB, 3 MiB/s, 2 s left'
    """
    done = _count(reached.done, reached.unit)
    if reached.total is not None:
        done = f"{done} of {_count(reached.total, reached.unit)}"
    told = f"{note}: {reached.doing} {done}"
    rate, left = measured["per_second"], measured["seconds_left"]
    if isinstance(rate, int | float):
        told += f", {_count(round(rate), reached.unit)}/s"
    if isinstance(left, int):
        told += f", {format_age(timedelta(seconds=left))} left"
    return told


def _count(number: int, unit: str) -> str:
    return format_bytes(number) if unit == "bytes" else f"{number:,} {unit}"
