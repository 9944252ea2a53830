"""
The load that is coming: how many occurrences each minute has, and who makes them.

Everything is foreseen from the rules of the actions that ticks look at now. Actions
with the same rule are counted together, so that 100,000 of them cost little more than
their different rules.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import find_filtered
from actions.occurrences import Schedule, parse_timing
from models.database.engine import json_rows, make_rows_json, read_clock
from models.database.tables import scheduled_actions
from models.errors import RuleError, UsageError
from models.fields.instants import format_instant
from overview.load_counting import Counting, Group, Share

#: The longest period, and the one if no end is given.
LONGEST = timedelta(days=7)
DEFAULT_PERIOD = timedelta(days=1)

#: Minutes with the most occurrences, and actions that are named for each.
HOT_MINUTES = 20
NAMED = 5

#: How long the computation may take; what is left then is told.
PATIENCE = timedelta(seconds=2)

_MINUTE = timedelta(minutes=1)

_kept = scheduled_actions.c


class LoadedMinuteJson(TypedDict):
    """The occurrences of one minute."""

    at: datetime
    total: int
    by_queue: dict[str, int]


class LoadingActionJson(TypedDict):
    """An action that is due in a hot minute."""

    uid: str
    app: str
    name: str


class HotMinuteJson(TypedDict):
    """A minute with many occurrences, and who makes them."""

    at: datetime
    total: int
    by_queue: dict[str, int]
    by_app: dict[str, int]
    actions: list[LoadingActionJson]


class AppLoadJson(TypedDict):
    """What one small app is going to do."""

    app: str
    total: int


LoadJson = TypedDict(
    "LoadJson",
    {
        "from": datetime,
        "until": datetime,
        "actions": int,
        "left_out": dict[str, int],
        "is_partial": bool,
        "total": int,
        "by_queue": dict[str, int],
        "by_app": list[AppLoadJson],
        "minutes": list[LoadedMinuteJson],
        "hot": list[HotMinuteJson],
    },
)


@dataclass(frozen=True, slots=True)
class LoadedMinute:
    """
    The occurrences of one minute.

    Args:
        at: When the minute begins, aware UTC.

        by_queue: How many are sent to each queue.
    """

    at: datetime
    by_queue: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many in all."""
        return sum(self.by_queue.values())

    def as_json(self) -> LoadedMinuteJson:
        """Return the documented object; keys are only added."""
        return {"at": self.at, "total": self.total, "by_queue": dict(self.by_queue)}


@dataclass(frozen=True, slots=True)
class LoadingAction:
    """An action that is due in a hot minute."""

    uid: str
    app: str
    name: str


@dataclass(frozen=True, slots=True)
class HotMinute:
    """
    A minute with many occurrences.

    Args:
        by_app: How many each small app has, the most first.

        actions: Some of those that are due then, at most NAMED.
    """

    minute: LoadedMinute
    by_app: Mapping[str, int]
    actions: Sequence[LoadingAction]

    def as_json(self) -> HotMinuteJson:
        """Return the documented object; keys are only added."""
        return {
            **self.minute.as_json(),
            "by_app": dict(self.by_app),
            "actions": [
                {"uid": each.uid, "app": each.app, "name": each.name}
                for each in self.actions
            ],
        }


@dataclass(frozen=True, slots=True)
class Load:
    """
    What is coming.

    Args:
        since: Aware UTC, inclusive, at the beginning of a minute.

        until: Aware UTC, exclusive.

        actions: How many actions were counted.

        left_out: How many were not, by the reason: ``events`` drive them, they are
            ``paused``, their rule is ``unreadable``, or there was no ``time`` left.

        by_app: The small app with the most first.

        minutes: Those with an occurrence, in order.

        hot: At most HOT_MINUTES, the hottest first.
    """

    since: datetime
    until: datetime
    actions: int
    left_out: Mapping[str, int]
    by_queue: Mapping[str, int]
    by_app: Mapping[str, int]
    minutes: Sequence[LoadedMinute]
    hot: Sequence[HotMinute]

    @property
    def is_partial(self) -> bool:
        """Whether there was no time to count all."""
        return TIME in self.left_out

    @property
    def total(self) -> int:
        """How many occurrences in all."""
        return sum(self.by_queue.values())

    def as_json(self) -> LoadJson:
        """Return the documented object; keys are only added."""
        return {
            "from": self.since,
            "until": self.until,
            "actions": self.actions,
            "left_out": dict(self.left_out),
            "is_partial": self.is_partial,
            "total": self.total,
            "by_queue": dict(self.by_queue),
            "by_app": [
                {"app": app, "total": total} for app, total in self.by_app.items()
            ],
            "minutes": [each.as_json() for each in self.minutes],
            "hot": [each.as_json() for each in self.hot],
        }


#: Why actions are not counted.
EVENTS, PAUSED, UNREADABLE, TIME = "events", "paused", "unreadable", "time"


def forecast_load(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    app: str | None = None,
    patience: timedelta = PATIENCE,
    monotonic: Callable[[], float] = time.monotonic,
) -> Load:
    """
    Return how many occurrences are coming in each minute.

    Args:
        connection: Any.

        since: Aware; its minute is the first. None: now.

        until: Aware, exclusive; at most LONGEST after *since*. None: DEFAULT_PERIOD
            after it.

        app: Uid of the only small app that counts. None: all.

        patience: How long it may take, after what there is has been read.

        monotonic: Returns seconds that never jump.

    Raises:
        NotFoundError: There is no such small app.

        UsageError: The period is empty or too long.
    """
    find_filtered(connection, app=app, action=None)
    now = read_clock(connection).replace(second=0, microsecond=0)
    begin = (since or now).replace(second=0, microsecond=0)
    end = until or begin + DEFAULT_PERIOD
    _refuse_period(begin, end)
    left_out = _count_left_out(connection, app)
    deadline = monotonic() + patience.total_seconds()
    counting = Counting(begin, end, named=NAMED)
    uids = _fetch_spread_uids(connection, app)
    # Most actions have nothing to do for days. What is past may be decided already, so
    # there it does not matter when they are due next.
    before = end if begin >= now else None
    counted = 0 if before is None else _count_later(connection, app, before)
    for group in _fetch_groups(connection, app, before):
        schedule = _parse(group.timing)
        if schedule is None:
            left_out[UNREADABLE] += group.count
        elif monotonic() >= deadline:
            left_out[TIME] += group.count
        else:
            if schedule.jitter:
                group.uids = uids[group.app, group.queue, group.timing]
            is_done = counting.add(group, schedule, lambda: monotonic() >= deadline)
            left_out[TIME] += 0 if is_done else group.count
            counted += group.count if is_done else 0
    minutes = [
        LoadedMinute(begin + number * _MINUTE, dict(sorted(counts.items())))
        for number, counts in sorted(counting.by_minute.items())
    ]
    hottest = sorted(minutes, key=lambda each: (-each.total, each.at))[:HOT_MINUTES]
    return Load(
        since=begin,
        until=end,
        actions=counted,
        left_out=+left_out,
        by_queue=dict(sorted(counting.by_queue.items())),
        by_app=dict(counting.by_app.most_common()),
        minutes=minutes,
        hot=_name_hot(
            connection,
            [(e, counting.find_shares((e.at - begin) // _MINUTE)) for e in hottest],
        ),
    )


def _refuse_period(since: datetime, until: datetime) -> None:
    if until <= since:
        msg = (
            f"--from ({format_instant(since)}) is not before --until"
            f" ({format_instant(until)}), so nothing lies between them."
        )
        raise UsageError(msg)
    if until - since > LONGEST:
        msg = (
            f"from {format_instant(since)} to {format_instant(until)} are more than"
            f" {LONGEST.days} days. Ask for a shorter period."
        )
        raise UsageError(msg)


def _is_ticked() -> list[sa.ColumnElement[bool]]:
    """Match the actions that ticks look at."""
    return [
        _kept.deleted_at.is_(None),
        _kept.active,
        _kept.paused_at.is_(None),
        _kept.quarantined_at.is_(None),
    ]


def _count_left_out(connection: sa.Connection, app: str | None) -> Counter[str]:
    paused = _kept.paused_at.is_not(None)
    query = (
        sa.select(
            sa.func.count().filter(paused),
            sa.func.count().filter(~paused, _kept.timing.is_(None)),
        )
        .select_from(scheduled_actions)
        .where(_kept.deleted_at.is_(None), _kept.active, _kept.quarantined_at.is_(None))
    )
    if app is not None:
        query = query.where(_kept.app == app)
    of_pauses, of_events = connection.execute(query).one()
    return Counter({PAUSED: of_pauses, EVENTS: of_events})


def _count_later(connection: sa.Connection, app: str | None, before: datetime) -> int:
    """Return how many actions are due, but not *before* an instant."""
    query = sa.select(sa.func.count()).where(
        *_is_ticked(), _kept.timing.is_not(None), _kept.next_due_at >= before
    )
    if app is not None:
        query = query.where(_kept.app == app)
    count: int = connection.execute(query).scalar_one()
    return count


def _fetch_groups(
    connection: sa.Connection, app: str | None, before: datetime | None
) -> list[Group]:
    """
    Return the groups, those of the rules with the most actions first.

    Args:
        connection: Any.

        app: Uid of the only small app that counts. None: all.

        before: Only actions that are due before this instant. None: all.
    """
    query = (
        sa.select(_kept.app, _kept.queue, _kept.timing, sa.func.count())
        .where(
            *_is_ticked(),
            _kept.timing.is_not(None),
            _kept.next_due_at.is_not(None),
        )
        .group_by(_kept.app, _kept.queue, _kept.timing)
    )
    if app is not None:
        query = query.where(_kept.app == app)
    if before is not None:
        query = query.where(_kept.next_due_at < before)
    groups = [Group(*row) for row in connection.execute(query)]
    of_rule: Counter[str] = Counter()
    for group in groups:
        of_rule[group.timing] += group.count
    # Those with the same rule side by side: it is asked once for all of them.
    groups.sort(key=lambda each: (-of_rule[each.timing], each.timing, -each.count))
    return groups


def _fetch_spread_uids(
    connection: sa.Connection, app: str | None
) -> dict[tuple[str, str, str], list[str]]:
    """Return the actions that have jitter, by app, queue and rule."""
    query = sa.select(_kept.app, _kept.queue, _kept.timing, _kept.uid).where(
        # canonical JSON, which has the key only if there is a value
        *_is_ticked(),
        _kept.timing.contains('"jitter":"', autoescape=True),
    )
    if app is not None:
        query = query.where(_kept.app == app)
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for of_app, queue, timing, uid in connection.execute(query):
        found[of_app, queue, timing].append(uid)
    return found


def _parse(timing: str) -> Schedule | None:
    try:
        return parse_timing(timing)
    except RuleError:
        return None


def _name_hot(
    connection: sa.Connection, hot: Sequence[tuple[LoadedMinute, Sequence[Share]]]
) -> list[HotMinute]:
    """Say whose occurrences the hottest minutes have, with some of the actions."""
    shares = [share for _minute, found in hot for share in found]
    uids = {uid for share in shares for uid in share.uids}
    of_groups = {id(e.group): e.group for e in shares if not e.uids}
    examples = _fetch_examples(connection, list(of_groups.values()))
    chosen = _fetch_named(connection, uids)
    named = []
    for minute, found in hot:
        by_app: Counter[str] = Counter()
        actions: list[LoadingAction] = []
        for share in sorted(found, key=lambda each: -each.count):
            by_app[share.group.app] += share.count
            if len(actions) < NAMED:
                actions += examples.get(id(share.group), ())
                actions += [chosen[uid] for uid in share.uids if uid in chosen]
        named.append(HotMinute(minute, dict(by_app.most_common()), actions[:NAMED]))
    return named


def _fetch_named(
    connection: sa.Connection, uids: Collection[str]
) -> dict[str, LoadingAction]:
    given = json_rows(connection.dialect.name, {"uid": sa.Text()}, "given")
    rows = connection.execute(
        sa.select(_kept.uid, _kept.app, _kept.name).where(
            _kept.uid.in_(sa.select(given.c.uid))
        ),
        {"given": make_rows_json([{"uid": uid} for uid in uids])},
    )
    return {row.uid: LoadingAction(*row) for row in rows}


def _fetch_examples(
    connection: sa.Connection, groups: Sequence[Group]
) -> dict[int, list[LoadingAction]]:
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
        .where(*_is_ticked())
        .subquery()
    )
    rows = connection.execute(
        sa.select(found.c.number, found.c.uid, found.c.app, found.c.name)
        .where(found.c.place <= NAMED)
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
    examples: dict[int, list[LoadingAction]] = {id(group): [] for group in groups}
    for number, *action in rows:
        examples[id(groups[number])].append(LoadingAction(*action))
    return examples
