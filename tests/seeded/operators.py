"""Who runs the seeded installation, and what they did to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from migrations.schema_revisions import get_newest_revision
from models.database.journal import GENESIS, compute_hash
from models.operation_state import OperationState
from operations.reasons import make_cause_key
from tests.seeded.actions import SeededAction
from tests.seeded.businesses import BUSINESSES
from tests.seeded.runs import History
from tests.seeded.scene import Scene

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)

#: Of all processes.
_VERSION = "0.1.0"


def make_lease(scene: Scene) -> dict[str, Any]:
    """Return the row of the leader's lease."""
    return {
        "name": "scheduler",
        "holder": scene.make_id("leader"),
        "hostname": "sched-b",
        "pid": 1,
        "acquired_at": scene.outage[1],
        "heartbeat_at": scene.now - 3 * _SECOND,
        "expires_at": scene.now + 57 * _SECOND,
        "fence": 42,
        "last_tick_at": scene.last_tick,
        "noticed_until": scene.last_tick,
    }


def make_leaderships(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield who has led; the last one but one let its lease run out."""
    spans = (
        (37, "sched-a", -41 * _DAY, -33 * _DAY),
        (38, "sched-b", -33 * _DAY, -24.2 * _DAY),
        (39, "sched-a", -24.2 * _DAY, -17.1 * _DAY),
        (40, "sched-b", -17.1 * _DAY, -8.01 * _DAY),
    )
    known = [(*who, scene.now + begin, scene.now + end) for *who, begin, end in spans]
    lost = (41, "sched-a", scene.now - 8 * _DAY, None)
    names = ("fence", "hostname", "acquired_at", "released_at")
    for each in (*known, lost, (42, "sched-b", scene.outage[1], None)):
        yield {"pid": 1, **dict(zip(names, each, strict=True))}


def make_processes(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield two schedulers and three workers, one of which is silent."""
    started_at = scene.now - 8 * _DAY
    workers = (
        ("quick@w1", "w1", ["quick", "celery"], 4, scene.silent_at),
        ("heavy@w3", "w3", ["heavy"], 2, scene.now - 2 * _SECOND),
        ("heavy@w4", "w4", ["heavy"], 2, scene.now - 5 * _SECOND),
    )
    schedulers = (
        (f"scheduler@{host}", host, list[str](), None, scene.now - seconds * _SECOND)
        for host, seconds in (("sched-b", 3), ("sched-c", 11))
    )
    shown: list[tuple[str, Any]] = [("scheduler", each) for each in schedulers]
    shown += [("worker", each) for each in workers]
    for role, (name, host, queues, concurrency, beat) in shown:
        yield {
            "id": scene.make_id("process", name),
            "role": role,
            "name": name,
            "hostname": host,
            "pid": 1,
            "version": _VERSION,
            "revision": get_newest_revision(),
            "queues": queues,
            "concurrency": concurrency,
            "settings": {},
            "clock_skew_s": 0.004,
            "free_bytes": 212 << 30 if role == "worker" else None,
            "started_at": started_at,
            "heartbeat_at": beat,
        }


def make_notices(scene: Scene, history: History) -> Iterator[dict[str, Any]]:
    """Yield the causes of failures that are not over: those of the last day."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in history.operations:
        if row["state"] is not OperationState.FAILED:
            continue
        if scene.now - row["finished_at"] < _DAY:
            step = row["reason"].partition(": ")[2]
            cause = f"{step}: {row['error']}" if step else row["error"]
            grouped.setdefault((row["app"], cause), []).append(row)
    for (app, cause), rows in grouped.items():
        counts = Counter(row["action_uid"] for row in rows)
        latest = {row["action_uid"]: row for row in rows}
        last = rows[-1]
        yield {
            "id": scene.make_id("notice", app, cause),
            "scope": app,
            "kind": "failed",
            "cause_key": make_cause_key(cause),
            "cause": cause,
            "opened_at": rows[0]["finished_at"],
            "last_at": last["finished_at"],
            "count": len(rows),
            "untold": 0,
            "told_at": rows[0]["finished_at"] + 20 * _SECOND,
            "tellings": 1,
            "actions": {
                uid: {
                    "app": app,
                    "name": latest[uid]["triggered_by"].split('"')[1],
                    "count": count,
                    "told": True,
                    "last_at": latest[uid]["finished_at"].isoformat(),
                    "occurrence": latest[uid]["occurrence"].isoformat(),
                }
                for uid, count in counts.items()
            },
            "examples": [str(row["id"]) for row in rows[-5:]],
            "closed_at": None,
        }


def make_keys(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield API keys: used, never used, expired, revoked. Nobody has their secrets."""
    names = ("grafana", "deploy", "shop system", "night desk", "support")
    roles = ("viewer", "editor", "operator", "operator", "admin")
    for number in range(14):
        app = None if number < 4 else BUSINESSES[number].uid
        draw = scene.draw("key", number)
        key_id = "".join(draw.choices("ABCDEFGHJKLMNPQRSTUVWXYZabcdefgh23456789", k=12))
        created_at = scene.now - draw.uniform(10, 300) * _DAY
        is_revoked = number == 9
        ends_at = scene.now + (number - 6) * 5 * _DAY if number % 3 == 0 else None
        revoked_at = scene.now - 2 * _DAY if is_revoked else None
        used_at = scene.now - draw.random() ** 3 * 9 * _DAY
        # Nobody gets in with a key that has ended.
        used_at = min(each for each in (used_at, ends_at, revoked_at) if each)
        yield {
            "id": key_id,
            "app": app,
            "role": roles[number % 5],
            "name": names[number % 5],
            "digest": f"{number:064x}",
            "created_at": created_at,
            "created_by": "root@sched-a",
            "expires_at": ends_at,
            "last_used_at": None if number % 6 == 5 else max(used_at, created_at),
            "revoked_at": revoked_at,
            "revoked_by": "root@sched-a" if is_revoked else None,
            "replaces": None,
        }


def make_invitations(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield invitations, every other one used. Nobody has their secrets."""
    for number, each in enumerate(BUSINESSES[:8]):
        created_at = scene.now - (number + 1) * _DAY / 2
        yield {
            "digest": f"{number:016x}" * 4,
            "kind": "invitation",
            "key_id": None,
            "app": each.uid,
            "role": "viewer",
            "name": f"guest {number + 1} (invited by root@sched-a)",
            "created_at": created_at,
            "expires_at": created_at + 7 * _DAY,
            "used_at": scene.now - _DAY / 4 if number % 2 else None,
        }


def make_bulk_changes(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield what was done to many at once, all of it over."""
    done = (
        ("kestrel-air", "cancel", {"state": ["queued"], "app": "kestrel-air"}, 12),
        ("northgate-bank", "retry", {"state": ["failed"]}, 31),
        (None, "pause", {"queue": ["heavy"]}, 412),
        (None, "resume", {"queue": ["heavy"]}, 412),
    )
    for number, (app, kind, chosen, count) in enumerate(done):
        at = scene.now - (11 - 2 * number) * _DAY
        yield {
            "id": scene.make_id("bulk", number),
            "app": app,
            "kind": kind,
            "filter": chosen,
            "arguments": {"note": None, "until": None},
            "requested_by": "maria@sched-a",
            "created_at": at,
            "total": count,
            "done": count,
            "refused": {},
            "finished_at": at + 9 * _SECOND,
        }


def make_backfills(
    scene: Scene, actions: Sequence[SeededAction]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return two backfills, one of them under way, and its occurrences."""
    named = {each.uid: each for each in actions}
    made, occurrences = [], []
    for number, uid in enumerate(("nightly-warehouse-load", "outage-digest")):
        action = named[uid]
        created_at = scene.now - (19 * _DAY if number == 0 else 40 * _MINUTE)
        backfill_id = scene.make_id("backfill", uid)
        from_at = created_at - 20 * _DAY
        is_over = number == 0
        made.append(
            {
                "id": backfill_id,
                "app": action.business.uid,
                "action_uid": uid,
                "from_at": from_at,
                "until_at": from_at + 8 * _DAY,
                "which": "missing",
                "total": 8,
                "at_once": 1,
                "note": "after the move of the warehouse" if is_over else None,
                "requested_by": f"vera@{action.business.host}",
                "created_at": created_at,
                "finished_at": created_at + _HOUR if is_over else None,
            }
        )
        for day in range(8):
            at = (from_at + day * _DAY).replace(second=0, microsecond=0)
            occurrences.append(
                {
                    "backfill_id": backfill_id,
                    "occurrence": at,
                    "operation_id": scene.make_id("backfilled", uid, day),
                    "outcome": "recorded" if is_over or day < 5 else None,
                }
            )
    return made, occurrences


def make_changes(
    scene: Scene, actions: Sequence[SeededAction], history: History
) -> list[dict[str, Any]]:
    """Return the record of changes of the last month; its chain holds."""
    found: list[dict[str, Any]] = []
    for action in actions:
        found += _list_revisions(scene, action)
    for row in history.operations:
        if row["state"] is OperationState.CANCELED:
            by = f"rui@{row['app'].partition('-')[0]}.example"
            change = _make_change(
                row["finished_at"], by, row["app"], "operation", str(row["id"])
            )
            found.append({**change, "change": "canceled"})
    for number, business in enumerate(BUSINESSES):
        at = scene.now - (3 + number) * _DAY
        by = f"vera@{business.host}"
        change = _make_change(at, by, business.uid, "app", business.uid)
        found.append({**change, "change": "applied", "after": {"users": 2}})
    found.sort(key=lambda row: (row["at"], row["subject"]))
    previous = GENESIS
    for number, row in enumerate(found, 1):
        row |= {"number": number, "previous_hash": previous}
        previous = row["hash"] = compute_hash(row)
    return found


def _list_revisions(scene: Scene, action: SeededAction) -> Iterator[dict[str, Any]]:
    """Yield what the record says of the revisions of an action."""
    for each in action.revisions:
        at = each["recorded_at"]
        by = each["changed_by"]
        if by == "scheduler" or scene.now - at > 200 * _DAY:
            continue
        app = action.business.uid
        row = _make_change(at, by, app, "action", action.uid)
        row |= {"change": str(each["change"]), "note": each["note"]}
        match row["change"]:
            case "posted":
                row["after"] = {"revision": 1, "name": action.name, "active": True}
            case "replaced":
                number = each["revision"]
                row |= {
                    "before": {"revision": number - 1},
                    "after": {"revision": number},
                }
            case "paused":
                until = action.columns["paused_until"]
                pause = {
                    "at": at.isoformat(),
                    "until": until and until.isoformat(),
                    "by": by,
                    "note": each["note"],
                    "scope": "action",
                }
                row["after"] = {"pause": pause}
            case _:
                row["before"] = {"revision": each["revision"] - 1, "name": action.name}
        yield row


def _make_change(
    at: datetime, by: str, app: str, kind: str, subject: str
) -> dict[str, Any]:
    return {
        "number": 0,
        "at": at,
        "by": by,
        "key_id": None,
        "request_id": None,
        "app": app,
        "kind": kind,
        "subject": subject,
        "change": "",
        "before": None,
        "after": None,
        "note": None,
        "previous_hash": "",
        "hash": "",
    }
