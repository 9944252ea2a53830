"""
The files of the workspace: names of its folders, and what is removed.

That is versions beyond those to keep, and files to which no version refers.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import sqlalchemy as sa
from pydantic import JsonValue

from models.database.engine import reading, writing
from models.database.lists import belongs_to
from models.database.tables import app_documents, domain_versions, domains
from models.errors import StepError
from operations.domains import Move, MoveKind

#: Characters that are kept. Capitals are not: on file systems that ignore case, two
#: domains would share a folder.
_KEPT = string.ascii_lowercase + string.digits + "-_"

#: Characters of a folder name; file systems allow 255 bytes.
_LONGEST = 150


def encode_name(name: str) -> str:
    """
    Return *name* as one folder name: never a path, never hidden, never too long.

    Different names give different folders on every file system.

    >>> encode_name("sales")
    'sales'
    >>> encode_name("../Sales")
    '%2e%2e%2f%53ales'
    """
    encoded = "".join(
        letter if letter in _KEPT else _encode_letter(letter) for letter in name
    )
    if 0 < len(encoded) <= _LONGEST:
        return encoded

    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{encoded[: _LONGEST - len(digest) - 1]}~{digest}"


def _encode_letter(letter: str) -> str:
    # quote() always keeps letters and dots, so these are encoded by hand.
    quoted = quote(letter, safe="")
    return quoted.lower() if quoted != letter else f"%{ord(letter):02x}"


#: A version this young stays, whatever its rank: a reader may have found it while it
#: was live, and be about to open its file. An open file can still be read.
YOUNG = timedelta(minutes=15)


def prune_versions(
    engine: sa.Engine,
    root: Path,
    *,
    keep: int,
    before: datetime,
    limit: int,
    app: str | None = None,
) -> int:
    """
    Remove at most *limit* versions, beyond the newest *keep* of each domain.

    Args:
        engine: Of the database that records the versions.
        root: Folder to which their paths are relative.
        keep: At least 0. Versions that are staged, live, or were live before always
            stay.
        before: Aware UTC; versions made since then stay.
        limit: Rows of one transaction.
        app: Only versions of this small app. None: of all apps.

    Returns:
        How many were removed.
    """
    kept, used = domain_versions.c, domains.c
    key = (kept.app, kept.domain, kept.version)
    rank = sa.func.row_number().over(
        partition_by=(kept.app, kept.domain), order_by=kept.version.desc()
    )
    found = sa.select(*key, kept.created_at, rank.label("rank"))
    ranked = found.where(*belongs_to(app, kept.app)).subquery("ranked").c
    in_use = sa.exists().where(
        used.app == ranked.app,
        used.name == ranked.domain,
        ranked.version.in_(
            [used.staged_version, used.live_version, used.previous_version]
        ),
    )
    oldest = (ranked.app, ranked.domain, ranked.version)
    old = (
        sa.select(*oldest)
        .where(ranked.rank > keep, ranked.created_at < before, ~in_use)
        .order_by(*oldest)
        .limit(limit)
    )
    statement = sa.delete(domain_versions).where(sa.tuple_(*key).in_(old))
    with writing(engine) as connection:
        paths = connection.scalars(statement.returning(kept.path)).all()
    # Rows first: a row without its file would be an error, but prune_files finds a file
    # without its row.
    for path in paths:
        (root / path).unlink(missing_ok=True)
    return len(paths)


def count_bytes(engine: sa.Engine, app: str) -> int:
    """Return the size of all versions of a small app together, in bytes."""
    sizes = sa.select(sa.func.sum(domain_versions.c.bytes))
    with reading(engine) as connection:
        return int(connection.scalar(sizes.where(domain_versions.c.app == app)) or 0)


def prune_drafts(folder: Path, *, before: datetime) -> None:
    """
    Remove half-written files in *folder* that have not changed since *before*.

    Only the one heavy operation of the app may call this: nobody else writes there.
    """
    for path in _find_old(folder, before):
        if path.suffix != ".parquet":
            path.unlink(missing_ok=True)


def prune_files(engine: sa.Engine, root: Path, *, before: datetime, limit: int) -> int:
    """
    Remove at most *limit* files without a version, unchanged since *before*.

    Args:
        engine: Of the database that records the versions.
        root: Folder of the workspace; it may not exist yet.
        before: Aware UTC; drafts that are being written must be younger.
        limit: Files of one call.

    Returns:
        How many were removed.
    """
    removed = 0
    for folder in sorted(root.glob("*/*/")):
        old = list(_find_old(folder, before))
        if not old:
            continue
        named = _fetch_named(engine, folder.relative_to(root).as_posix())
        for path in old:
            if path.relative_to(root).as_posix() in named:
                continue
            path.unlink(missing_ok=True)
            removed += 1
            if removed >= limit:
                return removed
    return removed


def _find_old(folder: Path, before: datetime) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        # Only our own files: never a file that somebody put here.
        if not path.name.endswith((".parquet", ".part", ".download")):
            continue
        changed_at = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
        if path.is_file() and changed_at < before:
            yield path


def _fetch_named(engine: sa.Engine, folder: str) -> set[str]:
    statement = sa.select(domain_versions.c.path).where(
        domain_versions.c.path.startswith(f"{folder}/", autoescape=True)
    )
    with reading(engine) as connection:
        return set(connection.execute(statement).scalars())


def _find_sides(
    app: str, kind: str
) -> tuple[sa.Table, list[sa.ColumnElement[bool]], list[sa.Column[Any]]]:
    """Return the table of *kind*, its rows, and what is staged, live, and before."""
    table, end = (domains, "_version") if kind == "data" else (app_documents, "")
    here = [table.c.app == app]
    if kind != "data":
        here.append(table.c.part == kind)
    return table, here, [table.c[f"{e}{end}"] for e in ("staged", "live", "previous")]


def has_staged(connection: sa.Connection, app: str, kind: str) -> bool:
    """Return whether *app* has anything staged of *kind*."""
    _, here, (staged, *_) = _find_sides(app, kind)
    found = sa.exists().where(*here, staged.is_not(None))
    return bool(connection.scalar(sa.select(found)))


def explain_nothing_staged(app: str, kind: str) -> StepError:
    """Return the error for a *kind* that has nothing staged."""
    hint = (
        'Run "refresh" before "publish".'
        if kind == "data"
        else f'Apply a document "{kind}" first (minutehand apps apply FILE).'
    )
    msg = f"small app {app!r} has nothing staged for {kind}. {hint}"
    return StepError(msg, permanent=True)


def move_live(
    connection: sa.Connection,
    app: str,
    kind: str,
    now: datetime,
    *,
    back: bool = False,
    names: Collection[str] | None = None,
) -> list[Move]:
    """
    Make what is staged of *kind* live; return what moved, by name.

    Args:
        now: Aware UTC; when it is published.
        back: Whether to swap what is live with what was live before, instead.
        names: Of domains. None: all.
    """
    table, here, (staged, live, former) = _find_sides(app, kind)
    source = former if back else staged
    moving = (
        sa.update(table)
        .where(*here, source.is_not(None))
        .values({former: live, live: source, table.c.published_at: now})
    )
    if not back:
        moving = moving.where(staged.is_distinct_from(live))
    if kind != "data":
        moved = connection.execute(moving).rowcount
        return [Move(cast("MoveKind", kind), kind, None, None)] if moved else []
    if names is not None:
        moving = moving.where(table.c.name.in_(names))
    rows = connection.execute(moving.returning(table.c.name, former, live))
    return [Move("data", *row) for row in sorted(rows.all())]


#: Actions of which figures are kept for a domain: those that sent one last. An app has
#: one or two; without a bound, deleted actions would stay for ever.
MOST_ACTIONS = 50


def keep_figures(
    connection: sa.Connection,
    app: str,
    action_uid: str,
    figures: Mapping[str, JsonValue],
) -> None:
    """
    Store *figures*, by domain; domains that are gone meanwhile are left out.

    Args:
        connection: In a transaction that holds the claim.
        action_uid: The action that sent the summary.
        figures: As ``Former.as_json`` has them.
    """
    rows = connection.execute(
        sa.select(domains.c.name, domains.c.summarized)
        .where(domains.c.app == app, domains.c.name.in_(figures))
        .order_by(domains.c.name)
        .with_for_update()
    ).all()
    for name, stored in rows:
        kept: dict[str, Any] = {**(stored or {}), action_uid: figures[name]}
        latest = sorted(kept.items(), key=lambda entry: entry[1]["at"], reverse=True)
        connection.execute(
            sa.update(domains)
            .where(domains.c.app == app, domains.c.name == name)
            .values(summarized=dict(latest[:MOST_ACTIONS]))
        )
