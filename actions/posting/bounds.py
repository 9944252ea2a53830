"""What the actions of a small app may be together, and why a post is too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import sqlalchemy as sa

from actions.load.forecast import forecast_load
from actions.lookup import SYSTEM_APP
from actions.occurrences import read_timing
from actions.pausing.pause_state import Pause, hold_pause
from actions.read_actions import get_action_state
from actions.small_apps.app_row import lock_app
from actions.when.searching import find_occurrences
from models.database.engine import read_clock
from models.database.tables import scheduled_actions
from models.errors import Problem
from models.fields.app_bounds import NO_BOUNDS, AppBounds, get_bounds
from models.fields.instants import format_instant
from models.revision import ActionState
from models.units import format_age, format_count, show_instant

#: Occurrences of one action among which the shortest interval is looked for, and how
#: far ahead: rules that meet do so within a year, or often.
_LOOKED_AT = 1000
_WITHIN = timedelta(days=366)


#: No hour has more occurrences of one action.
_MOST_AN_HOUR = 3600

_ASK = "or ask an operator for more (MINUTEHAND_APP_BOUNDS)."

_action = scheduled_actions.c


class Alteration(NamedTuple):
    """
    What a post or a resume changes for an app.

    Args:
        is_new: Whether it has one action more.
        before: The canonical text of the rules that run now. None: none does.
        after: Those that run then, if they change. None: they do not, or none does.
    """

    is_new: bool
    before: str | None
    after: str | None


def _make_alteration(
    old: sa.Row[Any] | None, values: Mapping[str, object]
) -> Alteration:
    """Return what the columns *values* change, in place of *old* if there is one."""
    before = None
    if old is not None and old.active and get_action_state(old) is ActionState.ACTIVE:
        before = old.timing
    after = values["timing"] if values["active"] else None
    is_same = old is not None and before == after
    return Alteration(old is None, before, None if is_same else after)  # type: ignore[arg-type]


def hold_bounds(
    connection: sa.Connection, app: str, by_app: Mapping[str, AppBounds]
) -> Pause | None:
    """
    Return the pause of *app* as ``hold_pause``, before something is posted or resumed.

    To an app that has bounds nobody else adds until the commit: each would count
    without what the other one adds.
    """
    if get_bounds(by_app, app) != NO_BOUNDS:
        lock_app(connection, app)
    return hold_pause(connection, app)


def find_excess(
    connection: sa.Connection,
    app: str,
    by_app: Mapping[str, AppBounds],
    changes: Sequence[tuple[sa.Row[Any] | None, Mapping[str, object]]],
) -> dict[int, Problem]:
    """
    Return why what is posted or resumed together is too much, by its place in the list.

    What is there already is no matter: only what is new, or runs at other times.

    Args:
        connection: Nothing of it is stored yet.
        by_app: The bounds of small apps.
        changes: Of each action the row that it replaces, if any, and its columns.
    """
    bounds = get_bounds(by_app, app)
    if bounds == NO_BOUNDS or app == SYSTEM_APP:
        return {}
    altered = [_make_alteration(*each) for each in changes]
    found: dict[int, Problem] = {}
    now = read_clock(connection)
    new = [place for place, each in enumerate(altered) if each.is_new]
    if bounds.actions is not None and new:
        of_app = _action.app == app, _action.deleted_at.is_(None)
        counted = sa.select(sa.func.count()).where(*of_app)
        count = connection.execute(counted).scalar_one() + len(new)
        if count > bounds.actions:
            message = f"Small app {app!r} would have {count:,} of at most"
            message += f" {format_count(bounds.actions, 'action', 'actions')}."
            hint = f"Delete what is no longer needed, {_ASK}"
            found[new[-1]] = Problem("", message, hint)
    if (shortest := bounds.shortest_interval) is not None:
        for place, each in enumerate(altered):
            if pair := _find_too_close(each.after, shortest, now):
                found.setdefault(place, _tell_closest(each.after, pair, shortest))
    changed = [place for place, each in enumerate(altered) if each.after is not None]
    if bounds.runs_an_hour is not None and changed:
        hour, count = _find_peak(connection, app, altered, now, bounds.runs_an_hour)
        if count > bounds.runs_an_hour:
            message = f"Small app {app!r} would have {count:,} of at most"
            message += f" {format_count(bounds.runs_an_hour, 'run', 'runs')} an hour"
            message += f" ({format_instant(hour)} and after)."
            problem = Problem("/when", message, f"Run it less often, {_ASK}")
            found.setdefault(changed[-1], problem)
    return found


def _find_too_close(
    timing: str | None, shortest: timedelta, now: datetime
) -> tuple[datetime, datetime] | None:
    """Return the two occurrences within a year that are closest, if too close."""
    schedule = read_timing(timing)
    if schedule is None:
        return None
    found = find_occurrences(schedule, now, now + _WITHIN, limit=_LOOKED_AT)
    pair = min(pairwise(found), key=lambda pair: pair[1] - pair[0], default=None)
    return pair if pair is not None and pair[1] - pair[0] < shortest else None


def _find_peak(
    connection: sa.Connection,
    app: str,
    altered: Sequence[Alteration],
    now: datetime,
    most: int,
) -> tuple[datetime, int]:
    hours: Counter[datetime] = Counter()
    for minute in forecast_load(connection, app=app).minutes:
        hours[minute.at.replace(minute=0)] += minute.total
    for each in altered:
        if each.after is not None:
            hours.subtract(Counter(dict(_count_hours(each.before, now, _MOST_AN_HOUR))))
            hours.update(Counter(dict(_count_hours(each.after, now, most + 1))))
    return max(hours.items(), key=lambda each: each[1], default=(now, 0))


def _count_hours(
    timing: str | None, now: datetime, most: int
) -> Iterator[tuple[datetime, int]]:
    """Yield how many occurrences of a rule are in each hour of a day, up to *most*."""
    schedule = read_timing(timing)
    if schedule is None:
        return
    begin, end = now, now + timedelta(days=1)
    while begin < end:
        hour = begin.replace(minute=0, second=0, microsecond=0)
        until = min(hour + timedelta(hours=1), end)
        yield hour, len(find_occurrences(schedule, begin, until, limit=most))
        begin = until


def _tell_closest(
    timing: str | None, pair: tuple[datetime, datetime], shortest: timedelta
) -> Problem:
    schedule, (first, second) = read_timing(timing), pair
    zone = None if schedule is None else schedule.rules[0].zone
    message = (
        f"It would be due at {show_instant(first, zone)} and"
        f" {format_age(second - first)} later; the shortest interval of this small app"
        f" is {format_age(shortest)}."
    )
    return Problem("/when", message, f"Run it less often, {_ASK}")
