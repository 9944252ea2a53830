"""Versions of data in a workspace, staged as a refresh stages them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import sqlalchemy as sa

from models.database.engine import reading, writing
from models.database.tables import app_documents, domains
from operations.adapters.workspace import RealWorkspace
from operations.domains import DomainDraft, Fingerprint, Reading
from operations.ports import Claimant
from tests.database import fetch_rows
from tests.scheduling import add_app

READ_AT = datetime(2026, 1, 5, 6, tzinfo=UTC)
OPERATION = UUID("3771f246-cc92-5326-b56a-8665f62de245")


def add_domains(engine: sa.Engine, *names: str, app: str = "app") -> None:
    """Add an app with these domains, whose addresses have a key."""
    add_app(engine, app)
    with writing(engine) as connection:
        for name in names:
            source = {"url": f"https://example.com/{name}.csv?key=hunter2"}
            connection.execute(
                sa.insert(domains).values(app=app, name=name, source=source)
            )


def stage(
    engine: sa.Engine,
    root: Path,
    name: str,
    columns: dict[str, list[Any]],
    app: str = "app",
) -> int:
    """Stage a version of a domain with these columns; return its number."""
    workspace = RealWorkspace(engine, root)
    path = workspace.draft_path(app, name)
    frame = pl.DataFrame(columns)
    frame.write_parquet(path)
    draft = DomainDraft(name, path, Reading(frame.height, Fingerprint("s", etag="e")))
    by = Claimant(app, OPERATION, READ_AT, lambda _connection: None)
    return workspace.stage(by, [draft])[name]


def apply_document(engine: sa.Engine, part: str, text: str, app: str = "app") -> None:
    here = (app_documents.c.app == app, app_documents.c.part == part)
    staged = {"staged": {"text": text}}
    with writing(engine) as connection:
        update = sa.update(app_documents).where(*here).values(**staged)
        if not connection.execute(update).rowcount:
            connection.execute(
                sa.insert(app_documents).values(app=app, part=part, **staged)
            )


def fetch_pointers(
    engine: sa.Engine, app: str = "app"
) -> dict[str, tuple[int | None, int | None, int | None]]:
    """Return the staged, live and former version of each domain."""
    kept = domains.c
    with reading(engine) as connection:
        rows = connection.execute(sa.select(domains).where(kept.app == app))
        return {
            row.name: (row.staged_version, row.live_version, row.previous_version)
            for row in rows
        }


def fetch_live(engine: sa.Engine, part: str, app: str = "app") -> str | None:
    kept = app_documents.c
    live = fetch_rows(
        engine, sa.select(kept.live).where(kept.app == app, kept.part == part)
    ).scalar_one_or_none()
    return None if live is None else live["text"]
