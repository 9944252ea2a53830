"""
What somebody who helps from afar needs to see: no secret, and nothing of a tenant.

Small apps, actions, users, notes, texts of errors and addresses are left out: of what
failed the bundle has the state, the reason and the times.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.engine import db_now
from models.database.tables import TROUBLED, operations
from overview.doctor.finding import Finding, FindingJson
from overview.installation.installed import InstallationJson, fetch_installation
from overview.installation.status import (
    LeaderJson,
    LeadershipJson,
    QueueJson,
    fetch_status,
)
from overview.installation.workers import ProcessJson
from settings import Settings

#: The most failures and processes.
_MOST = 100

_LATELY = timedelta(days=1)

#: What doctor says of these is about the installation alone; of others, only how it is.
_OF_ALL = frozenset(
    {"schema", "version", "settings", "grants", "leader", "tick", "sending", "clock"}
    | {"space", "broker", "mail", "outbox", "scheduler"}
)

#: Settings that name people or small apps.
_PERSONAL = frozenset(
    {"MINUTEHAND_ACTOR", "MINUTEHAND_METRICS_APPS", "MINUTEHAND_NOTICE_MAIL"}
    | {"MINUTEHAND_MAIL_SENDER_HOSTS"}
    | {"MINUTEHAND_MAIL_SENDER", "MINUTEHAND_SQL_CONNECTIONS"}
    | {"MINUTEHAND_TASK_CONNECTIONS", "MINUTEHAND_TASK_RESULTS"}
    | {"MINUTEHAND_NOTICE_WEBHOOK"}
)


class FailureJson(TypedDict):
    """An operation that failed or was missed, without whose it is."""

    id: UUID
    state: str
    reason: str
    queue: str
    trigger: str
    attempt: int
    recorded_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None


class BundleJson(TypedDict):
    """A support bundle; ``failures`` are the latest hundred of a day."""

    made_at: datetime
    installation: InstallationJson
    doctor: list[FindingJson]
    leader: LeaderJson | None
    leaderships: list[LeadershipJson]
    last_tick_at: datetime | None
    tick_age_s: float | None
    lag_s: float
    backlog: dict[str, dict[str, int]]
    queues: dict[str, QueueJson]
    paused: dict[str, Any]
    processes: list[ProcessJson]
    uncertain_mails: int
    failures: list[FailureJson]


def make_bundle(
    connection: sa.Connection, settings: Settings, findings: Sequence[Finding]
) -> BundleJson:
    """
    Return a support bundle, of at most some hundred kilobytes.

    Args:
        findings: What doctor found.
    """
    status = fetch_status(connection, settings).as_json()
    installation = fetch_installation(connection, settings).as_json()
    for each in installation["settings"]:
        if each["name"] in _PERSONAL and each["value"] not in {"not set", "none"}:
            each["value"] = "set"
    paused = status["paused"]
    return {
        "made_at": status["now"],
        "installation": installation,
        "doctor": [_strip(each) for each in findings],
        "leader": status["leader"],
        "leaderships": status["leaderships"],
        "last_tick_at": status["last_tick_at"],
        "tick_age_s": status["tick_age_s"],
        "lag_s": status["lag_s"],
        "backlog": status["backlog"],
        "queues": status["queues"],
        "paused": {
            "all": paused["all"] is not None,
            "apps": len(paused["apps"]),
            "actions": paused["actions"],
            "queues": sorted(paused["queues"]),
        },
        "processes": status["processes"][:_MOST],
        "uncertain_mails": status["uncertain_mails"],
        "failures": _fetch_failures(connection),
    }


def _strip(finding: Finding) -> FindingJson:
    """Return a finding without what names a small app."""
    told = finding.as_json()
    if finding.subject not in _OF_ALL:
        told["detail"] = (
            "left out, since it may name small apps; see queues, backlog and failures"
        )
    return told


def _fetch_failures(connection: sa.Connection) -> list[FailureJson]:
    kept = operations.c
    columns = [kept[name] for name in FailureJson.__annotations__]
    rows = connection.execute(
        sa.select(*columns)
        .where(TROUBLED.of(), kept.finished_at >= db_now(-_LATELY))
        .order_by(kept.finished_at.desc())
        .limit(_MOST)
    )
    return [
        {
            "id": row.id,
            "state": row.state,
            # after the colon is what a server or a tenant said
            "reason": (row.reason or "").partition(":")[0],
            "queue": row.queue,
            "trigger": row.trigger,
            "attempt": row.attempt,
            "recorded_at": row.recorded_at,
            "started_at": row.started_at,
            "finished_at": row.finished_at,
            "worker": row.worker,
        }
        for row in rows
    ]
