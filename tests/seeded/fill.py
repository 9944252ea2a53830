"""Fill an empty database with the seeded installation, in less than a minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from actions.zone_changes import remember_zones
from models.database import tables
from models.database.engine import writing
from tests.seeded.actions import make_actions
from tests.seeded.apps import (
    HOLIDAYS,
    make_app_rows,
    make_documents,
    make_holidays,
    make_people,
    make_templates,
)
from tests.seeded.businesses import BUSINESSES
from tests.seeded.data import make_data, make_events
from tests.seeded.history import make_history
from tests.seeded.operators import (
    make_backfills,
    make_bulk_changes,
    make_changes,
    make_invitations,
    make_keys,
    make_leaderships,
    make_lease,
    make_notices,
    make_processes,
)
from tests.seeded.scene import Scene

Row = Mapping[str, Any]


def fill(engine: sa.Engine, *, scene: Scene, workspace: Path) -> dict[str, int]:
    """
    Make the seeded installation; return how many rows each table has.

    Args:
        engine: Of a migrated, empty SQLite file.
        scene: When it is.
        workspace: Folder for the files of data.
    """
    rows = _make_rows(scene, workspace)
    with writing(engine) as connection:
        connection.exec_driver_sql("PRAGMA cache_size = -200000")  # KiB
        remember_zones(connection, {row["zone"] for row in rows["scheduled_actions"]})
        for name, found in rows.items():
            connection.execute(sa.insert(tables.metadata.tables[name]), found)
        changes = rows["changes"]
        head = {"number": len(changes), "hash": changes[-1]["hash"]}
        connection.execute(sa.update(tables.change_head).values(head))
    return {name: len(found) for name, found in rows.items()}


def _make_rows(scene: Scene, workspace: Path) -> dict[str, list[Row]]:
    """Return the rows of each table."""
    people = {each.uid: make_people(scene, each) for each in BUSINESSES}
    events = [*make_events(scene, people)]
    actions = make_actions(scene, HOLIDAYS)
    history = make_history(scene, actions, people, events)
    data = make_data(scene, actions, history, workspace)
    changes = make_changes(scene, actions, history)
    backfills, occurrences = make_backfills(scene, actions)
    memberships = [
        {"app": app, "group_name": group, "user_id": user}
        for app, each in people.items()
        for group, ids in each.groups.items()
        for user in ids
    ]
    rows: dict[str, Iterable[Row]] = {
        "small_apps": make_app_rows(scene),
        "users": [row for each in people.values() for row in each.rows],
        "memberships": memberships,
        "templates": [row for each in BUSINESSES for row in make_templates(each)],
        "holidays": make_holidays(scene),
        "app_documents": make_documents(scene),
        "scheduled_actions": [each.columns for each in actions],
        "scheduled_action_revisions": [
            row for each in actions for row in each.revisions
        ],
        "events": events,
        "operations": history.operations,
        "operation_steps": _sort(history.steps),
        "mail_contents": history.contents.values(),
        "deliveries": _sort(history.deliveries),
        "operation_log": _sort(history.log),
        "domains": data.domains,
        "domain_versions": data.versions,
        "leases": [make_lease(scene)],
        "leaderships": make_leaderships(scene),
        "processes": make_processes(scene),
        "notices": make_notices(scene, history),
        "api_keys": make_keys(scene),
        "sign_ins": make_invitations(scene),
        "bulk_changes": make_bulk_changes(scene),
        "backfills": backfills,
        "backfill_occurrences": occurrences,
        "changes": changes,
    }
    return {name: [*each] for name, each in rows.items()}


def _sort(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *rows* in the order of their keys, in which a B-tree grows fastest."""
    return sorted(rows, key=lambda row: row["operation_id"].bytes)
