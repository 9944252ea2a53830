"""The data of the small apps: domains, their versions, and the files of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from models.operation_state import OperationState
from operations.adapters.workspace_files import encode_name
from tests.seeded.actions import SeededAction
from tests.seeded.businesses import BUSINESSES, Business
from tests.seeded.runs import History
from tests.seeded.scene import Scene

_HOUR = timedelta(hours=1)


@dataclass
class Data:
    """Rows of domains and of their versions."""

    domains: list[dict[str, Any]] = field(default_factory=list)
    versions: list[dict[str, Any]] = field(default_factory=list)


def make_data(
    scene: Scene, actions: list[SeededAction], history: History, workspace: Path
) -> Data:
    """
    Return the domains of every app.

    Args:
        scene: When it is.
        actions: All of them.
        history: What they did.
        workspace: Folder for the files of the versions.
    """
    made = Data()
    for business in BUSINESSES:
        reader = _find_reader(actions, history, business)
        for number, name in enumerate(business.domains):
            _add_domain(scene, made, business, name, number, reader, workspace)
    return made


def _find_reader(
    actions: list[SeededAction], history: History, business: Business
) -> tuple[datetime, Any] | None:
    """Return when data of *business* were last read, and by which operation."""
    uids = {
        each.uid
        for each in actions
        if each.business is business and "refresh" in each.steps
    }
    for row in reversed(history.operations):
        if row["action_uid"] in uids and row["state"] is OperationState.SUCCEEDED:
            return row["finished_at"], row["id"]
    return None


def _add_domain(  # noqa: PLR0917 - what a domain is made of
    scene: Scene,
    made: Data,
    business: Business,
    name: str,
    number: int,
    reader: tuple[datetime, Any] | None,
    workspace: Path,
) -> None:
    draw = scene.draw("domain", business.uid, name)
    sources: tuple[dict[str, Any], ...] = (
        {"url": f"https://data.{business.host}/{name}.csv"},
        {"file": f"{name}.csv"},
        {"sql": f"select * from {name}", "connection": "warehouse"},
    )
    newest = draw.randrange(40, 190)
    # Of every fourth domain, what is staged is not live yet.
    live = newest - 1 if number % 4 == 0 else newest
    read_at, operation_id = reader or (scene.now - 30 * _HOUR, None)
    for version in range(live - 1, newest + 1):
        at = read_at - (newest - version) * draw.uniform(20, 28) * _HOUR
        path = f"{encode_name(business.uid)}/{encode_name(name)}/{version}.parquet"
        frame = _make_frame(scene, business, name, version, is_new=version == newest)
        size, digest = _write(frame, path, workspace)
        made.versions.append(
            {
                "app": business.uid,
                "domain": name,
                "version": version,
                "path": path,
                "rows": frame.height,
                "bytes": size,
                "sha256": digest,
                "source_digest": hashlib.sha256(
                    str(sources[number % 3]).encode()
                ).hexdigest(),
                "etag": f'"{digest[:12]}"' if number % 3 == 0 else None,
                "last_modified": None,
                "operation_id": operation_id if version == newest else None,
                "created_at": at,
            }
        )
    made.domains.append(
        {
            "app": business.uid,
            "name": name,
            "source": sources[number % 3],
            "staged_version": newest,
            "live_version": live,
            "previous_version": live - 1,
            "published_at": made.versions[-1]["created_at"]
            if live == newest
            else made.versions[-2]["created_at"] + _HOUR,
        }
    )


def _make_frame(
    scene: Scene, business: Business, name: str, version: int, *, is_new: bool
) -> pl.DataFrame:
    """Return some rows that look like *name*; the newest may have a column more."""
    draw = scene.draw("rows", business.uid, name, version)
    count = scene.draw("size", business.uid, name).randrange(80, 900) + version % 37
    places = [business.places[each % len(business.places)] for each in range(count)]
    columns: dict[str, Any] = {
        "id": list(range(1, count + 1)),
        "place": places,
        "amount": [round(draw.uniform(1, 900), 2) for _ in range(count)],
        "changed_on": [scene.now.date()] * count,
    }
    if is_new and len(name) % 3 == 0:
        columns["checked"] = [each % 5 != 0 for each in range(count)]
    return pl.DataFrame(columns)


def _write(frame: pl.DataFrame, path: str, workspace: Path) -> tuple[int, str]:
    file = workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(file)
    content = file.read_bytes()
    return len(content), hashlib.sha256(content).hexdigest()


def make_events(scene: Scene, people: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what happened to users within the last two months."""
    for business in BUSINESSES:
        begin = scene.now - timedelta(days=62)
        rows = people[business.uid].rows
        for row in rows:
            for name in ("created", "activated", "last_seen"):
                at = row[f"{name}_at"]
                if at is not None and at > begin:
                    yield _make_event(
                        scene, business, f"instance.user.{name}", row["id"], at
                    )
        draw = scene.draw("events", business.uid)
        for number in range(120):
            at = scene.now - draw.random() * timedelta(days=30)
            user = draw.choice(rows)["id"]
            name = draw.choice(("app.order_paid", "app.order_paid", "app.form_sent"))
            made = _make_event(scene, business, name, user, at, number)
            # Programs name what they send, so that it counts once.
            made["source"] = f"https://shop.{business.host}/events"
            made["source_id"] = f"{business.uid[:3]}-{10_000 + number}"
            yield made


def _make_event(
    scene: Scene,
    business: Business,
    name: str,
    user: str,
    at: datetime,
    number: int = 0,
) -> dict[str, Any]:
    return {
        "id": scene.make_id("event", business.uid, name, user, number),
        "app": business.uid,
        "name": name,
        "user_id": user,
        "at": at,
        "recorded_at": at + timedelta(seconds=0.7),
        "source": None,
        "source_id": None,
    }
