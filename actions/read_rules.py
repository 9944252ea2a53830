"""
Read what the rules of stored actions say: whether they are broken, and what comes next.

Nothing here writes, and the tick uses nothing of it. Whoever reads no rule imports
read_actions alone, without the kinds of ``when``, which take a while to import.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.occurrences import (
    Due,
    Schedule,
    find_due,
    parse_timing,
    read_timing,
    walk_due,
)
from actions.read_actions import WITHOUT_DOCUMENT, fetch_rows, get_action_state
from models.database.lists import belongs_to, is_revision_among
from models.database.tables import (
    DUE_ACTIONS,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.errors import RuleError
from models.fields.delay import Delay
from models.fields.zone import load_zone
from models.json_form import ASIDE
from models.revision import ActionState

_action = scheduled_actions.c


def find_problem(row: sa.Row[Any]) -> str | None:
    """Return why the rule of *row* (an action) cannot be read; None if it can."""
    try:
        if row.timing is not None:
            parse_timing(row.timing)
        else:
            load_zone(row.zone)
            Delay.parse(row.delay)
    except RuleError as error:
        return str(error)
    return None


def find_zone(row: sa.Row[Any]) -> ZoneInfo:
    """Return the zone in which *row* (an action) is read; of several, the first."""
    return find_zone_at(row.timing, row.zone)


def fetch_named(
    connection: sa.Connection, uids: Collection[str]
) -> Mapping[str, tuple[str, ZoneInfo]]:
    """
    Return what actions are called, and the zone in which each is read, by uid.

    An action that is no longer there is called by its uid, and read in UTC.
    """
    rows = fetch_rows(connection, [*uids])
    known = {uid: (row.name, find_zone(row)) for uid, row in rows.items()}
    return {uid: (uid, load_zone("UTC")) for uid in uids} | known


def runs_when_resumed(row: sa.Row[Any] | None) -> bool:
    """Tell whether *row* is of an action that runs, as if no pause were."""
    runs = {ActionState.ACTIVE, ActionState.PAUSED}
    return row is not None and row.active and get_action_state(row) in runs


def read_schedule(row: sa.Row[Any] | None) -> Schedule | None:
    """Return the schedule of *row*, as if no pause were; None: it has none."""
    return read_timing(row.timing) if row and runs_when_resumed(row) else None


def find_next(row: sa.Row[Any], *, count: int) -> list[datetime]:
    """Return the next *count* occurrences of *row* (an action) if it can be read."""
    return [each.occurrence for each in find_next_due(row, count=count)]


def find_next_due(row: sa.Row[Any], *, count: int) -> list[Due]:
    """
    Return the next *count* occurrences of *row* (an action), and when each is sent.

    If the action is paused, those after the end of the pause; none if the pause has no
    end, or the rule cannot be read.
    """
    start, effective_from = row.next_due_at, row.effective_from
    if get_action_state(row) is ActionState.PAUSED and row.paused_until is not None:
        is_out = not row.active
        start = effective_from = max(row.paused_until, effective_from)
    else:
        is_out = get_action_state(row) is not ActionState.ACTIVE
    schedule = None if is_out else read_timing(row.timing)
    if schedule is None or start is None:
        return []
    dues = walk_due(schedule, row.uid, start=start, effective_from=effective_from)
    return list(islice(dues, count))


def find_due_between(
    row: sa.Row[Any], since: datetime, until: datetime, *, limit: int
) -> list[Due]:
    """
    Return when *row* (an action) is due in ``[since, until)``, at most *limit* times.

    Never, if its rule cannot be read or no rule of time drives it.
    """
    schedule = read_timing(row.timing)
    if schedule is None:
        return []
    return find_due(
        schedule,
        row.uid,
        start=since,
        now=until - timedelta.resolution,
        limit=limit,
        effective_from=row.effective_from,
    )


@dataclass(frozen=True, slots=True)
class NextDue:
    """
    An action that is due next.

    Args:
        next_due_at: When the tick looks at it next, aware UTC.
        occurrence: The one that comes next, aware UTC. None: as *due*.
        event: What it waits for; None: it is driven by time.
        due: The occurrence that comes next, and when it is sent; None: it is driven by
            an event.
        zone: In which its rule is read.
    """

    uid: str
    app: str
    name: str
    next_due_at: datetime
    occurrence: datetime | None
    event: str | None
    due: Due | None = field(metadata=ASIDE)
    zone: ZoneInfo = field(metadata=ASIDE)


def fetch_next_due(
    connection: sa.Connection, *, limit: int, app: str | None
) -> list[NextDue]:
    """Return the actions (of *app*) that are due next, oldest first."""
    query: sa.Select[Any] = (
        sa.select(*WITHOUT_DOCUMENT)
        .where(DUE_ACTIONS.of(scheduled_actions.name), *belongs_to(app, _action.app))
        .order_by(_action.next_due_at)
        .limit(limit)
    )
    found = []
    for row in connection.execute(query):
        due = next(iter(find_next_due(row, count=1)), None)
        occurrence = None if due is None else due.occurrence
        known = row.uid, row.app, row.name, row.next_due_at
        found.append(NextDue(*known, occurrence, row.event, due, find_zone(row)))
    return found


@dataclass(frozen=True, slots=True)
class Zones:
    """
    The zones of some revisions of actions.

    Args:
        named: The timing, and the zone of those that follow events, of each: by uid and
            number.
    """

    named: Mapping[tuple[str, int], tuple[str | None, str | None]]

    def find(self, uid: str, revision: int, at: datetime) -> ZoneInfo:
        """Return the zone in which *at* is read; UTC if the revision was pruned."""
        return find_zone_at(*self.named.get((uid, revision), (None, None)), at)


def fetch_zones(connection: sa.Connection, keys: Collection[tuple[str, int]]) -> Zones:
    """
    Return the zones of these revisions.

    Args:
        keys: Uids of actions, deleted or not, and numbers of their revisions.
    """
    if not keys:
        return Zones({})
    kept = scheduled_action_revisions.c
    of_action = scheduled_actions, _action.uid == kept.uid
    rows = connection.execute(
        sa.select(kept.uid, kept.revision, kept.timing, _action.zone)
        .join_from(scheduled_action_revisions, *of_action, isouter=True)
        .where(is_revision_among(connection, keys))
    )
    return Zones({(row.uid, row.revision): (row.timing, row.zone) for row in rows})


def find_zone_at(
    timing: str | None, zone: str | None, at: datetime | None = None
) -> ZoneInfo:
    """
    Return the zone in which the rule of an action is read.

    Args:
        timing: Canonical text of the time-driven ones. None: it follows events.
        zone: Of the action's row; said of those that follow events.
        at: One of its occurrences: with several rules, each may have its own zone.
            None: that of the first rule is asked for.

    Returns:
        UTC if the rule cannot be read.
    """
    try:
        if timing is None:
            return load_zone(zone or "UTC")
        schedule = parse_timing(timing)
    except RuleError:  # of a newer tz database
        return load_zone("UTC")
    placed = None
    if at is not None and len({each.zone for each in schedule.rules}) > 1:
        placed = schedule.find_rule(at)
    return schedule.rules[0].zone if placed is None else placed.rule.zone
