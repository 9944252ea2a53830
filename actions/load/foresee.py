"""
Foresee what is coming, from the actions that ticks look at, those of a rule together.

What is found in all of 100,000 actions is grouped by the database.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.lease import get_last_tick_at
from actions.load.counting import Counting, LoadedMinute, NamedAction, RuleGroup, Share
from actions.occurrences import read_timing
from models.database.tables import DUE_ACTIONS, IDLE_ACTIONS, scheduled_actions
from models.errors import RuleError
from models.operation_state import Queue

#: Why actions are not counted.
EVENTS, PAUSED, UNREADABLE, TIME = "events", "paused", "unreadable", "time"

#: How long the computation may take; what is left then is told.
PATIENCE = timedelta(seconds=2)

#: In the canonical JSON of rules with jitter.
_JITTER = '"jitter":"'

_MINUTE = timedelta(minutes=1)

_action = scheduled_actions.c

_Condition = sa.ColumnElement[bool] | sa.TextClause


@dataclass(frozen=True, slots=True)
class Whose:
    """
    Whose occurrences are foreseen.

    Args:
        app: Uid of the only small app. None: all.
        queue: The only queue. None: all.
    """

    app: str | None = None
    queue: Queue | None = None

    def conditions(self, of: Any = _action) -> list[sa.ColumnElement[bool]]:
        """Match their actions, or what is theirs in another table's columns."""
        pairs = (of.app, self.app), (of.queue, self.queue)
        return [column == value for column, value in pairs if value is not None]

    def ticked(self) -> list[sa.ColumnElement[bool]]:
        """Match those of their actions that ticks look at."""
        return [
            _action.deleted_at.is_(None),
            _action.active,
            _action.paused_at.is_(None),
            _action.quarantined_at.is_(None),
            *self.conditions(),
        ]


def find_undecided(connection: sa.Connection, now: datetime) -> datetime:
    """Return the first minute that no tick has looked at; *now* is aware."""
    # A clock that was set back must not hide what is due meanwhile.
    last = get_last_tick_at(connection)
    looked_at = now - _MINUTE if last is None else min(last, now)
    return looked_at.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE


@dataclass(frozen=True, slots=True)
class Foreseen:
    """
    What was counted.

    Args:
        actions: How many actions were counted.
        left_out: How many were not, as there was no time or their rule is unreadable.
    """

    actions: int
    left_out: Counter[str]


def foresee(
    connection: sa.Connection,
    counting: Counting,
    whose: Whose,
    *,
    before: datetime | None,
    patience: timedelta | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Foreseen:
    """
    Count what is coming.

    Args:
        counting: Of the period; nothing was counted yet.
        whose: Whose occurrences.
        before: Aware. Only actions that are due before this instant are looked at: most
            have nothing to do for days. It holds if nothing of the period was decided.
            None: all are.
        patience: After that, nothing more is counted. None: PATIENCE.
        monotonic: Returns seconds that never jump.
    """
    deadline = monotonic() + (patience or PATIENCE).total_seconds()

    def is_over() -> bool:
        return monotonic() >= deadline

    left_out: Counter[str] = Counter()
    counted = 0
    found = _fetch_groups(connection, whose, before)
    for number, groups in _put_often_last(found):
        if is_over():
            break
        try:
            is_done = counting.add(groups, is_over)
        except RuleError:
            left_out[UNREADABLE] += number
        else:
            counted += number if is_done else 0
    in_all = sum(number for number, _groups in found)
    left_out[TIME] = in_all - counted - left_out[UNREADABLE]
    return Foreseen(counted, left_out)


def _put_often_last(
    found: Iterable[tuple[int, list[RuleGroup]]],
) -> Iterator[tuple[int, list[RuleGroup]]]:
    """Let a rule that is due each second, and takes as long as thousands, wait."""
    often = []
    for each in found:
        schedule = read_timing(each[1][0].timing)  # whoever counts it says if it is bad
        if schedule is not None and schedule.is_below_minute:
            often.append(each)
        else:
            yield each
    yield from often


#: Actions that events or the ends of others drive, not rules.
_OF_EVENTS = sa.or_(_action.event.is_not(None), _action.follows.is_not(None))
_IS_KEPT = _action.deleted_at.is_(None)


def _count(connection: sa.Connection, whose: Whose, *conditions: _Condition) -> int:
    query = sa.select(sa.func.count()).select_from(scheduled_actions)
    found = connection.execute(query.where(*conditions, *whose.conditions()))
    number: int = found.scalar_one()
    return number


def count_due(connection: sa.Connection, whose: Whose, *when: _Condition) -> int:
    """
    Return how many actions are due by their rules.

    An index alone knows what is due, with what events drive, and what events drive.

    Args:
        whose: Whose actions.
        when: Conditions on ``next_due_at``.
    """
    are_due = DUE_ACTIONS.of(scheduled_actions.name), *when
    driven = _count(connection, whose, _OF_EVENTS, _IS_KEPT, *are_due)
    return _count(connection, whose, *are_due) - driven


def count_others(
    connection: sa.Connection, whose: Whose, before: datetime | None
) -> tuple[int, Counter[str]]:
    """
    Return what ``foresee`` does not look at.

    Of the few that are idle, all are read.

    Returns:
        How many actions are due, but not *before* an instant; and how many are never
        foreseen, by the reason.
    """
    later = 0
    if before is not None:
        later = count_due(connection, whose, _action.next_due_at >= before)
    is_paused = sa.and_(
        _action.active, _action.paused_at.is_not(None), _action.quarantined_at.is_(None)
    )
    idle = sa.select(
        sa.func.count().filter(is_paused), sa.func.count().filter(_OF_EVENTS)
    ).where(_IS_KEPT, IDLE_ACTIONS.of(scheduled_actions.name), *whose.conditions())
    paused, idle_of_events = connection.execute(idle).one()
    driven = _count(connection, whose, _OF_EVENTS, _IS_KEPT) - idle_of_events
    return later, Counter({PAUSED: paused, EVENTS: driven})


def _fetch_groups(
    connection: sa.Connection, whose: Whose, before: datetime | None
) -> list[tuple[int, list[RuleGroup]]]:
    """
    Return the groups by rule, with its number of actions; the rules with most first.

    Only of actions that are due *before* an instant, if one is given.
    """
    are_due: list[_Condition] = [
        DUE_ACTIONS.of(scheduled_actions.name),
        _action.timing.is_not(None),
        *whose.conditions(),
    ]
    if before is not None:
        are_due.append(_action.next_due_at < before)
    of_group = (_action.app, _action.queue, _action.timing)
    query = sa.select(*of_group, sa.func.count()).where(*are_due).group_by(*of_group)
    by_rule: defaultdict[str, list[RuleGroup]] = defaultdict(list)
    for row in connection.execute(query).all():
        by_rule[row.timing].append(RuleGroup(*row))
    if any(_JITTER in timing for timing in by_rule):
        # canonical JSON, which has the key only if there is a value
        has_jitter = _action.timing.contains(_JITTER, autoescape=True)
        uids: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        found = sa.select(*of_group, _action.uid).where(*are_due, has_jitter)
        for *key, uid in connection.execute(found):
            uids[tuple(key)].append(uid)
        for group in (each for groups in by_rule.values() for each in groups):
            group.uids = uids.get((group.app, group.queue, group.timing), ())
    return sorted(
        ((sum(group.count for group in groups), groups) for groups in by_rule.values()),
        key=lambda each: (-each[0], each[1][0].timing),
    )


@dataclass(frozen=True, slots=True)
class HotMinute(LoadedMinute):
    """
    A minute with occurrences, and who makes them.

    Args:
        by_app: How many each small app has, the most first.
        actions: Some of those that are due then, of the largest shares first.
    """

    by_app: Mapping[str, int]
    actions: Sequence[NamedAction]


def name_minutes(
    connection: sa.Connection,
    counting: Counting,
    minutes: Sequence[LoadedMinute],
    whose: Whose,
    *,
    most: int,
) -> list[HotMinute]:
    """Return some minutes with whose occurrences they have, and *most* actions each."""
    shares = counting.find_shares([counting.number(each.at) for each in minutes])
    chosen = [_choose(found, most) for found in shares.values()]
    named = _fetch_named(connection, [e for few in chosen for e in few], whose, most)
    hot = []
    for minute, found, few in zip(minutes, shares.values(), chosen, strict=True):
        by_app: Counter[str] = Counter()
        for share in found:
            by_app[share.group.app] += share.count
        actions = [
            each
            for share in few
            for key in (share.uids or (share.group,))
            for each in named.get(key, ())
        ]
        by_most = dict(by_app.most_common())
        hot.append(
            HotMinute(minute.at, minute.total, minute.by_queue, by_most, actions[:most])
        )
    return hot


def _choose(shares: Sequence[Share], most: int) -> list[Share]:
    """Return the largest shares, as many as have *most* occurrences together."""
    chosen: list[Share] = []
    for share in sorted(shares, key=lambda each: -each.count):
        if most <= 0:
            break
        chosen.append(share)
        most -= len(share.uids) or share.group.count
    return chosen


def _fetch_named(
    connection: sa.Connection, shares: Sequence[Share], whose: Whose, most: int
) -> Mapping[str | RuleGroup, Sequence[NamedAction]]:
    """Return the actions that jitter chose by uid, and *most* of each other group."""
    found: defaultdict[str | RuleGroup, list[NamedAction]] = defaultdict(list)
    uids = sorted({uid for each in shares for uid in each.uids})
    by_uid = sa.select(_action.uid, _action.app, _action.name).where(
        _action.uid.in_(uids)
    )
    for row in connection.execute(by_uid) if uids else ():
        found[row.uid].append(NamedAction(*row))
    groups = {
        (each.group.app, each.group.queue, each.group.timing): each.group
        for each in shares
        if not each.group.uids
    }
    if groups:
        of_group = (_action.app, _action.queue, _action.timing)
        place = sa.func.row_number().over(partition_by=of_group, order_by=_action.uid)
        placed = (
            sa.select(*of_group, _action.uid, _action.name, place.label("place"))
            .where(sa.tuple_(*of_group).in_(sorted(groups)), *whose.ticked())
            .subquery()
        )
        few = sa.select(placed).where(placed.c.place <= most).order_by(placed.c.place)
        for app, queue, timing, uid, name, _ in connection.execute(few):
            found[groups[app, queue, timing]].append(NamedAction(uid, app, name))
    return found
