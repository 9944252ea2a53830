"""
The files of the workspace: names of its folders, and what is removed.

That is versions beyond those to keep, and files to which no version refers.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from models.database.engine import reading, writing
from models.database.tables import domain_versions, domains

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
    ranked_versions = sa.select(
        domain_versions.c.app,
        domain_versions.c.domain,
        domain_versions.c.version,
        domain_versions.c.created_at,
        sa.func.row_number()
        .over(
            partition_by=(domain_versions.c.app, domain_versions.c.domain),
            order_by=domain_versions.c.version.desc(),
        )
        .label("rank"),
    )
    if app is not None:
        ranked_versions = ranked_versions.where(domain_versions.c.app == app)
    ranked = ranked_versions.subquery("ranked")
    in_use = sa.exists().where(
        domains.c.app == ranked.c.app,
        domains.c.name == ranked.c.domain,
        sa.or_(
            domains.c.staged_version == ranked.c.version,
            domains.c.live_version == ranked.c.version,
            domains.c.previous_version == ranked.c.version,
        ),
    )
    old = (
        sa.select(ranked.c.app, ranked.c.domain, ranked.c.version)
        .where(ranked.c.rank > keep, ranked.c.created_at < before, ~in_use)
        .order_by(ranked.c.app, ranked.c.domain, ranked.c.version)
        .limit(limit)
    )
    statement = (
        sa.delete(domain_versions)
        .where(
            sa.tuple_(
                domain_versions.c.app,
                domain_versions.c.domain,
                domain_versions.c.version,
            ).in_(old)
        )
        .returning(domain_versions.c.path)
    )
    with writing(engine) as connection:
        paths = connection.execute(statement).scalars().all()
    # Rows first: a row without its file would be an error, but prune_files finds a file
    # without its row.
    for path in paths:
        (root / path).unlink(missing_ok=True)
    return len(paths)


def count_bytes(engine: sa.Engine, app: str) -> int:
    """Return the size of all versions of a small app together, in bytes."""
    statement = sa.select(sa.func.coalesce(sa.func.sum(domain_versions.c.bytes), 0))
    with reading(engine) as connection:
        total = connection.execute(statement.where(domain_versions.c.app == app))
        return int(total.scalar_one())


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
