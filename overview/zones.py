"""The zone whose clocks an action goes by, which its people read its times in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.occurrences import parse_timing
from models.database.tables import scheduled_action_revisions, scheduled_actions
from models.errors import RuleError
from models.fields.zone import load_zone

_UTC = load_zone("UTC")


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
        timing, zone = self.named.get((uid, revision), (None, None))
        return find_zone(timing, zone, at)


def fetch_zones(connection: sa.Connection, keys: Collection[tuple[str, int]]) -> Zones:
    """
    Return the zones of these revisions.

    Args:
        keys: Uids of actions, deleted or not, and numbers of their revisions.
    """
    if not keys:
        return Zones({})
    kept = scheduled_action_revisions.c
    rows = connection.execute(
        sa.select(kept.uid, kept.revision, kept.timing, scheduled_actions.c.zone)
        .join_from(
            scheduled_action_revisions,
            scheduled_actions,
            scheduled_actions.c.uid == kept.uid,
            isouter=True,
        )
        .where(sa.tuple_(kept.uid, kept.revision).in_(sorted(keys)))
    )
    return Zones({(row.uid, row.revision): (row.timing, row.zone) for row in rows})


def find_zone(timing: str | None, zone: str | None, at: datetime) -> ZoneInfo:
    """
    Return the zone in which the rule of an action is read.

    Args:
        timing: Canonical text of the time-driven ones. None: it follows events.
        zone: Of the action's row; said of those that follow events.
        at: One of its occurrences: with several rules, each may have its own zone.

    Returns:
        UTC if the rule cannot be read.
    """
    try:
        if timing is None:
            return _UTC if zone is None else load_zone(zone)
        schedule = parse_timing(timing)
    except RuleError:  # of a newer tz database
        return _UTC
    if len({each.zone for each in schedule.rules}) > 1:
        placed = schedule.find_rule(at)
        if placed is not None:
            return placed.rule.zone
    return schedule.rules[0].zone
