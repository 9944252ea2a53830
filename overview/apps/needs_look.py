"""What in each small app needs somebody's look, counted within bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import (
    IDLE_ACTIONS,
    TROUBLED,
    UNCERTAIN,
    deliveries,
    domains,
    operations,
    scheduled_actions,
)

#: How far back failed and missed operations are counted.
WITHIN = timedelta(hours=24)

#: Rows of each kind that are looked at, of all apps together: some 5 ms.
_LOOKED_AT = 5_000

#: Actions lie far apart in their table, so that each costs more.
_ACTIONS_LOOKED_AT = 2_000


@dataclass(frozen=True, slots=True)
class AppStanding:
    """
    What needs a look in a small app.

    ``failed`` and ``missed`` are the operations of 24 hours, and the latest of them;
    ``quarantined`` and ``paused`` are actions; ``uncertain`` are mails; ``unpublished``
    are the domains whose staged version is not live. ``is_whole`` is false if there is
    too much to be counted in a list.
    """

    failed: int
    missed: int
    last_trouble_at: datetime | None
    quarantined: int
    paused: int
    uncertain: int
    unpublished: int
    is_whole: bool

    @property
    def needs_look(self) -> bool:
        """Whether something went wrong, or waits for a decision."""
        return any((self.failed, self.missed, self.quarantined, self.uncertain))


def fetch_standings(
    connection: sa.Connection, apps: Collection[str]
) -> Mapping[str, AppStanding]:
    """
    Return what needs a look in each of *apps*.

    Args:
        apps: Uids; at most those of one part of a list.
    """
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    is_whole = True
    for query, most in (
        (_count_troubled(apps), _LOOKED_AT),
        (_count_idle(apps), _ACTIONS_LOOKED_AT),
        (_count_uncertain(apps), _LOOKED_AT),
        (_count_unpublished(apps), None),
    ):
        seen = 0
        for row in connection.execute(query).mappings():
            values = dict(row)
            seen += values.pop("looked_at", 0)
            found[values.pop("app")].update(values)
        is_whole &= most is None or seen < most
    nothing = {
        **dict.fromkeys((each.name for each in fields(AppStanding)), 0),
        "last_trouble_at": None,
    }
    return {
        app: AppStanding(**{**nothing, **found[app], "is_whole": is_whole})
        for app in apps
    }


def _pick(column: sa.ColumnElement[str], apps: Collection[str]) -> Any:
    """Return the condition; of one app, as an index is found for it."""
    return column == next(iter(apps)) if len(apps) == 1 else column.in_(sorted(apps))


def _count(condition: sa.ColumnElement[bool], name: str) -> sa.Label[int]:
    return sa.func.sum(sa.case((condition, 1), else_=0)).label(name)


def _count_troubled(apps: Collection[str]) -> sa.Select[Any]:
    columns = operations.c
    latest = (
        sa.select(columns.app, columns.state, columns.finished_at)
        .where(
            TROUBLED.of(),
            columns.finished_at >= db_now(-WITHIN),
            _pick(columns.app, apps),
        )
        .order_by(columns.finished_at.desc())
        .limit(_LOOKED_AT)
        .subquery("latest")
    )
    ended_at = latest.c.finished_at
    return sa.select(
        latest.c.app,
        _count(latest.c.state == "failed", "failed"),
        _count(latest.c.state == "missed", "missed"),
        sa.func.max(ended_at, type_=ended_at.type).label("last_trouble_at"),
        sa.func.count().label("looked_at"),
    ).group_by(latest.c.app)


def _count_idle(apps: Collection[str]) -> sa.Select[Any]:
    columns = scheduled_actions.c
    idle = (
        sa.select(columns.app, columns.paused_at, columns.quarantined_at)
        .where(
            columns.deleted_at.is_(None),
            IDLE_ACTIONS.of("scheduled_actions"),
            _pick(columns.app, apps),
        )
        .limit(_ACTIONS_LOOKED_AT)
        .subquery("idle")
    )
    is_quarantined = idle.c.quarantined_at.is_not(None)
    return sa.select(
        idle.c.app,
        _count(is_quarantined, "quarantined"),
        _count(~is_quarantined & idle.c.paused_at.is_not(None), "paused"),
        sa.func.count().label("looked_at"),
    ).group_by(idle.c.app)


def _count_uncertain(apps: Collection[str]) -> sa.Select[Any]:
    # Programs that do not write the app of a mail may run beside this one. Only for
    # their mails, the operation is looked up.
    of_operation = (
        sa.select(operations.c.app)
        .where(operations.c.id == deliveries.c.operation_id)
        .scalar_subquery()
    )
    owned = (
        sa.select(sa.func.coalesce(deliveries.c.app, of_operation).label("app"))
        .where(UNCERTAIN.of("deliveries"))
        .limit(_LOOKED_AT)
        .subquery("owned")
    )
    mails = sa.select(owned).where(_pick(owned.c.app, apps)).subquery("mails")
    count = sa.func.count()
    return sa.select(
        mails.c.app, count.label("uncertain"), count.label("looked_at")
    ).group_by(mails.c.app)


def _count_unpublished(apps: Collection[str]) -> sa.Select[Any]:
    columns = domains.c
    return (
        sa.select(columns.app, sa.func.count().label("unpublished"))
        .where(
            _pick(columns.app, apps),
            columns.staged_version.is_not(None),
            columns.staged_version.is_distinct_from(columns.live_version),
        )
        .group_by(columns.app)
    )
