"""
Fetch what is foreseen: the actions that ticks look at, those of a rule together.

What is found in all of 100,000 actions is grouped by the database.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.load.counting import Counting, Group, Share
from models.database.engine import json_rows, make_rows_json
from models.database.tables import DUE_ACTIONS, IDLE_ACTIONS, scheduled_actions
from models.errors import RuleError
from models.operation_state import Queue

#: Why actions are not counted.
EVENTS, PAUSED, UNREADABLE, TIME = "events", "paused", "unreadable", "time"

#: In the canonical JSON of rules with jitter.
_JITTER = '"jitter":"'

_MINUTE = timedelta(minutes=1)

_kept = scheduled_actions.c

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

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Match their actions, whatever becomes of them."""
        pairs = (_kept.app, self.app), (_kept.queue, self.queue)
        return [column == value for column, value in pairs if value is not None]

    def ticked(self) -> list[sa.ColumnElement[bool]]:
        """Match those of their actions that ticks look at."""
        return [
            _kept.deleted_at.is_(None),
            _kept.active,
            _kept.paused_at.is_(None),
            _kept.quarantined_at.is_(None),
            *self.conditions(),
        ]


@dataclass(frozen=True, slots=True)
class NamedAction:
    """An action, as people know it."""

    uid: str
    app: str
    name: str


@dataclass(frozen=True, slots=True)
class Foreseen:
    """
    What was counted.

    Args:
        actions: How many actions were counted.
        left_out: How many were not, as there was no time or their rule is unreadable.
    """

    counting: Counting
    actions: int
    left_out: Counter[str]


def find_undecided(now: datetime, last_tick_at: datetime | None) -> datetime:
    """Return the first minute that no tick has looked at."""
    this = now.astimezone(UTC).replace(second=0, microsecond=0)
    if last_tick_at is None:
        return this
    # A clock that was set back must not hide what is due meanwhile.
    looked_at = min(last_tick_at.astimezone(UTC), now)
    return looked_at.replace(second=0, microsecond=0) + _MINUTE


def foresee(
    connection: sa.Connection,
    counting: Counting,
    whose: Whose,
    *,
    before: datetime | None,
    is_over: Callable[[], bool],
) -> Foreseen:
    """
    Count what is coming.

    Args:
        counting: Of the period; nothing was counted yet.
        whose: Whose occurrences.
        before: Aware. Only actions that are due before this instant are looked at: most
            have nothing to do for days. It holds if nothing of the period was decided.
            None: all are.
        is_over: Whether there is no time left.
    """
    left_out: Counter[str] = Counter()
    counted = 0
    found = _fetch_groups(connection, whose, before)
    is_spread = any(_JITTER in timing for _, timing, _ in found)
    uids = _fetch_spread_uids(connection, whose, before) if is_spread else {}
    for number, timing, groups in found:
        if is_over():
            left_out[TIME] += number
            continue
        if _JITTER in timing:
            for group in groups:
                group.uids = uids[group.app, group.queue, timing]
        try:
            is_done = counting.add(groups, is_over)
        except RuleError:
            left_out[UNREADABLE] += number
        else:
            left_out[TIME] += 0 if is_done else number
            counted += number if is_done else 0
    return Foreseen(counting, counted, left_out)


def count_others(
    connection: sa.Connection, whose: Whose, before: datetime | None
) -> tuple[int, Counter[str]]:
    """
    Return what ``foresee`` does not look at.

    Returns:
        How many actions are due, but not *before* an instant; and how many are never
        foreseen, by the reason.
    """
    later = 0 if before is None else _count_later(connection, whose, before)
    return later, _count_left_out(connection, whose)


def _count_left_out(connection: sa.Connection, whose: Whose) -> Counter[str]:
    """
    Return how many actions are paused, and how many of the others events drive.

    Of the few that are idle, all are read; of those that events drive, only an index.
    """
    is_kept = _kept.deleted_at.is_(None)
    is_paused = sa.and_(
        _kept.active, _kept.paused_at.is_not(None), _kept.quarantined_at.is_(None)
    )
    idle = sa.select(
        sa.func.count().filter(is_paused),
        sa.func.count().filter(_kept.event.is_not(None)),
    ).where(is_kept, IDLE_ACTIONS.of(scheduled_actions.name), *whose.conditions())
    of_pauses, idle_of_events = connection.execute(idle).one()
    of_events = _count(connection, _kept.event.is_not(None), is_kept, whose=whose)
    return Counter({PAUSED: of_pauses, EVENTS: of_events - idle_of_events})


def _count_later(connection: sa.Connection, whose: Whose, before: datetime) -> int:
    """
    Return how many actions are due, but not *before* an instant.

    An index alone knows how many there are with those that events drive.
    """
    later = (DUE_ACTIONS.of(scheduled_actions.name), _kept.next_due_at >= before)
    of_events = (_kept.event.is_not(None), _kept.deleted_at.is_(None))
    return _count(connection, *later, whose=whose) - _count(
        connection, *of_events, *later, whose=whose
    )


def _count(connection: sa.Connection, *conditions: _Condition, whose: Whose) -> int:
    query = (
        sa.select(sa.func.count())
        .select_from(scheduled_actions)
        .where(*conditions, *whose.conditions())
    )
    count: int = connection.execute(query).scalar_one()
    return count


def _fetch_groups(
    connection: sa.Connection, whose: Whose, before: datetime | None
) -> list[tuple[int, str, list[Group]]]:
    """
    Return the groups by rule, with its number of actions; the rules with most first.

    Only of actions that are due *before* an instant, if one is given.
    """
    query = (
        sa.select(_kept.app, _kept.queue, _kept.timing, sa.func.count())
        .where(*_are_due(whose, before))
        .group_by(_kept.app, _kept.queue, _kept.timing)
    )
    by_rule: defaultdict[str, list[Group]] = defaultdict(list)
    for row in connection.execute(query):
        group = Group(*row)
        by_rule[group.timing].append(group)
    return sorted(
        (
            (sum(group.count for group in groups), timing, groups)
            for timing, groups in by_rule.items()
        ),
        key=lambda each: (-each[0], each[1]),
    )


def _are_due(whose: Whose, before: datetime | None) -> list[_Condition]:
    """Match the actions that time makes due, *before* an instant if one is given."""
    found: list[_Condition] = [
        DUE_ACTIONS.of(scheduled_actions.name),
        _kept.timing.is_not(None),
        *whose.conditions(),
    ]
    if before is not None:
        found.append(_kept.next_due_at < before)
    return found


def _fetch_spread_uids(
    connection: sa.Connection, whose: Whose, before: datetime | None
) -> dict[tuple[str, str, str], list[str]]:
    """Return the actions that have jitter, by app, queue and rule."""
    query = sa.select(_kept.app, _kept.queue, _kept.timing, _kept.uid).where(
        # canonical JSON, which has the key only if there is a value
        *_are_due(whose, before),
        _kept.timing.contains(_JITTER, autoescape=True),
    )
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for of_app, queue, timing, uid in connection.execute(query):
        found[of_app, queue, timing].append(uid)
    return found


def name_actions(
    connection: sa.Connection,
    minutes: Sequence[Sequence[Share]],
    whose: Whose,
    *,
    most: int,
) -> list[list[NamedAction]]:
    """
    Return some of the actions that have a share in each of some minutes.

    Args:
        minutes: Who has a share, of each minute.
        whose: As for ``foresee``.
        most: Actions of one minute; the counting named as many.

    Returns:
        For each minute, those of the largest shares first.
    """
    chosen = [_choose(found, most) for found in minutes]
    shares = [share for found in chosen for share in found]
    of_groups = {id(e.group): e.group for e in shares if not e.group.uids}
    examples = _fetch_examples(connection, list(of_groups.values()), whose, most)
    known = _fetch_named(connection, {uid for e in shares for uid in e.uids})
    named = []
    for found in chosen:
        actions: list[NamedAction] = []
        for share in found:
            actions += examples.get(id(share.group), ())
            actions += [known[uid] for uid in share.uids if uid in known]
        named.append(actions[:most])
    return named


def _choose(shares: Sequence[Share], most: int) -> list[Share]:
    """Return the largest shares, as many as have *most* occurrences together."""
    chosen: list[Share] = []
    for share in sorted(shares, key=lambda each: -each.count):
        if most <= 0:
            break
        chosen.append(share)
        most -= share.group.count if not share.uids else len(share.uids)
    return chosen


def _fetch_named(
    connection: sa.Connection, uids: Collection[str]
) -> dict[str, NamedAction]:
    given = json_rows(connection.dialect.name, {"uid": sa.Text()}, "given")
    rows = connection.execute(
        sa.select(_kept.uid, _kept.app, _kept.name).where(
            _kept.uid.in_(sa.select(given.c.uid))
        ),
        {"given": make_rows_json([{"uid": uid} for uid in uids])},
    )
    return {row.uid: NamedAction(*row) for row in rows}


def _fetch_examples(
    connection: sa.Connection, groups: Sequence[Group], whose: Whose, most: int
) -> dict[int, list[NamedAction]]:
    """Return some actions of each group, by its identity."""
    columns: dict[str, sa.types.TypeEngine[Any]] = {
        "number": sa.Integer(),
        "app": sa.Text(),
        "queue": sa.Text(),
        "timing": sa.Text(),
    }
    given = json_rows(connection.dialect.name, columns, "given")
    place = sa.func.row_number().over(partition_by=given.c.number, order_by=_kept.uid)
    found = (
        sa.select(
            given.c.number, _kept.uid, _kept.app, _kept.name, place.label("place")
        )
        .join_from(
            given,
            scheduled_actions,
            sa.and_(
                _kept.app == given.c.app,
                _kept.queue == given.c.queue,
                _kept.timing == given.c.timing,
            ),
        )
        .where(*whose.ticked())
        .subquery()
    )
    rows = connection.execute(
        sa.select(found.c.number, found.c.uid, found.c.app, found.c.name)
        .where(found.c.place <= most)
        .order_by(found.c.number, found.c.place),
        {
            "given": make_rows_json(
                [
                    {
                        "number": number,
                        "app": group.app,
                        "queue": group.queue,
                        "timing": group.timing,
                    }
                    for number, group in enumerate(groups)
                ]
            )
        },
    )
    examples: dict[int, list[NamedAction]] = {id(group): [] for group in groups}
    for number, *action in rows:
        examples[id(groups[number])].append(NamedAction(*action))
    return examples
