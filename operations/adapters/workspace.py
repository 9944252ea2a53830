"""
The workspace: versions as Parquet files, pointers to them in the database.

A file is written under a temporary name, synced and renamed before a row refers to it;
a row is removed before its file. So a crash leaves at most a file without a row, which
maintenance removes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import sqlalchemy as sa

from models.database.engine import reading, writing
from models.database.tables import domain_versions, domains, small_apps
from models.errors import PlatformError, StepError, UnreachableError
from operations.adapters import workspace_files as files
from operations.adapters.polars_io import read_figures
from operations.domains import (
    Domain,
    DomainDraft,
    DomainSummary,
    Fingerprint,
    Move,
    Version,
)
from operations.mail.summary.content import Figures
from operations.ports import Claimant, Retention
from operations.running.platform_errors import blaming_platform, find_platform_error

_CHUNK = 1 << 20

#: Versions of each domain that are kept besides those in use, while there is room.
KEEP = Retention().versions

#: Versions that a refresh removes at its end: more than it makes, so that the number of
#: versions that an older program left decreases, too.
_PRUNED_AT_ONCE = 500

#: Without room, versions are kept only as long as a reader needs to open one.
_BARELY_READ = timedelta(minutes=1)

_staged = domain_versions.alias("staged")
_live = domain_versions.alias("live")

#: Columns of a version that _make_version reads.
_COLUMNS = (
    *("version", "path", "rows", "bytes", "created_at"),
    *("source_digest", "etag", "last_modified"),
)


class RealWorkspace:
    """Implements :class:`operations.ports.Workspace` on a folder and the database."""

    def __init__(
        self,
        engine: sa.Engine,
        root: Path,
        *,
        most_bytes: int = 20 << 30,
        keep: int = KEEP,
    ) -> None:
        """
        Make it; nothing is opened or created.

        Args:
            engine: Of the worker's own process.
            root: Folder that all workers share; each small app has a folder in it.
            most_bytes: Largest size of all versions of one small app.
            keep: Versions of each domain besides those in use, while there is room.
        """
        self._engine = engine
        self._most_bytes = most_bytes
        self._keep = keep
        self._root = root

    def fetch_domains(self, app: str) -> tuple[Domain, ...]:
        """Return the present domains of *app*, ordered by name."""
        statement = (
            sa.select(
                *(domains.c.name, domains.c.source, domains.c.labels),
                *(domains.c.summarized, small_apps.c.source_folder),
                *(_staged.c[name].label(f"staged_{name}") for name in _COLUMNS),
                *(_live.c[name].label(f"live_{name}") for name in _COLUMNS),
            )
            .select_from(
                domains.join(small_apps, small_apps.c.uid == domains.c.app)
                .outerjoin(_staged, _is_version(_staged, "staged_version"))
                .outerjoin(_live, _is_version(_live, "live_version"))
            )
            .where(domains.c.app == app)
            .order_by(domains.c.name)
        )
        with reading(self._engine) as connection:
            rows = connection.execute(statement).mappings().all()
        return tuple(
            Domain(
                name=row["name"],
                source=row["source"],
                staged=self._make_version(row, "staged"),
                live=self._make_version(row, "live"),
                folder=row["source_folder"] and Path(row["source_folder"]),
                labels=row["labels"] or {},
                summarized=row["summarized"] or {},
            )
            for row in rows
        )

    def _make_version(self, row: sa.RowMapping, side: str) -> Version | None:
        number, path, *told = (row[f"{side}_{name}"] for name in _COLUMNS)
        if number is None:
            return None
        rows, size, created_at, digest, etag, modified = told
        identity = Fingerprint(digest or "", etag, modified)
        return Version(number, self._root / path, rows, size, created_at, identity)

    def draft_path(self, app: str, domain: str) -> Path:
        """Return a new temporary path, in the folder of the domain's versions."""
        folder = self._root / files.encode_name(app) / files.encode_name(domain)
        if not folder.is_dir():
            self._refuse_if_gone()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Drafts of killed workers could fill the disk before the daily maintenance.
            files.prune_drafts(folder, before=datetime.now(UTC) - files.YOUNG)
        except OSError as error:
            raise self._blame(error) from error
        return folder / f".{uuid4()}.part"

    def discard(self, paths: Sequence[Path]) -> None:
        """Remove drafts that will not be staged; some may be missing."""
        for path in paths:
            # This is called after an error, which must not be hidden by another one.
            # Maintenance removes what is left.
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def stage(self, by: Claimant, drafts: Sequence[DomainDraft]) -> dict[str, int]:
        """Make *drafts* the staged versions, all of them or none."""
        if not drafts:
            return {}
        numbers: dict[str, int] = {}
        try:
            # Hashing takes long for large files: never inside the transaction.
            self._check_room(by, drafts)
            digests = {draft.domain: _sync_and_hash(draft.path) for draft in drafts}
            with writing(self._engine) as connection:
                by.guard(connection)
                for draft in drafts:
                    digest = digests[draft.domain]
                    numbers[draft.domain] = self._record(connection, by, draft, digest)
        except OSError as error:
            raise self._blame(error) from error
        # A renamed file stays, whatever went wrong: if the connection broke during the
        # commit, a row may refer to it. If none does, maintenance removes it.

        # Prune here, too, not only once a day: a refresh each minute would leave 1,440
        # versions. Maintenance removes what cannot be removed now.
        with suppress(OSError, UnreachableError):
            self._prune_app(by.app, keep=self._keep, before=by.now - files.YOUNG)
        return numbers

    def _prune_app(self, app: str, *, keep: int, before: datetime) -> None:
        bounds = {"keep": keep, "limit": _PRUNED_AT_ONCE}
        files.prune_versions(self._engine, self._root, before=before, app=app, **bounds)

    def _check_room(self, by: Claimant, drafts: Sequence[DomainDraft]) -> None:
        """Refuse *drafts* that exceed the limit of the app, after removing old data."""
        app = by.app
        added = sum(draft.path.stat().st_size for draft in drafts)
        used = files.count_bytes(self._engine, app)
        if used + added > self._most_bytes:
            self._prune_app(app, keep=0, before=by.now - _BARELY_READ)
            used = files.count_bytes(self._engine, app)
        if used + added > self._most_bytes:
            msg = (
                f"small app {app!r} has {used:,} bytes of data versions in use, "
                f"this refresh makes {added:,} more, and an app may have "
                f"{self._most_bytes:,}. Refresh less data, remove domains, or ask for "
                "a higher MINUTEHAND_WORKSPACE_PER_APP."
            )
            raise StepError(msg, permanent=True)

    def _record(
        self, connection: sa.Connection, by: Claimant, draft: DomainDraft, digest: str
    ) -> int:
        """Give *draft* its name, a row, and the staged pointer; return its number."""
        number, path = self._reserve(connection, by.app, draft)
        draft.path.replace(path)
        _sync_folder(path.parent)
        fingerprint = draft.reading.fingerprint
        connection.execute(
            sa.insert(domain_versions).values(
                app=by.app,
                domain=draft.domain,
                version=number,
                path=path.relative_to(self._root).as_posix(),
                rows=draft.reading.rows,
                bytes=path.stat().st_size,
                sha256=digest,
                source_digest=fingerprint.source,
                etag=fingerprint.etag,
                last_modified=fingerprint.last_modified,
                operation_id=by.operation_id,
                created_at=by.now,
            )
        )
        connection.execute(
            sa.update(domains)
            .where(domains.c.app == by.app, domains.c.name == draft.domain)
            .values(staged_version=number)
        )
        return number

    def _reserve(
        self, connection: sa.Connection, app: str, draft: DomainDraft
    ) -> tuple[int, Path]:
        """Return the next version number and its file, reserved as an empty file."""
        newest = connection.execute(
            sa.select(sa.func.max(domain_versions.c.version)).where(
                domain_versions.c.app == app, domain_versions.c.domain == draft.domain
            )
        ).scalar()
        number = (newest or 0) + 1
        while True:
            path = draft.path.parent / f"{number}.parquet"
            try:
                path.open("xb").close()
            except FileExistsError:
                # Left by a crash, or made by a transaction that is not committed yet.
                # Never overwrite it: a row may refer to it soon.
                number += 1
            else:
                return number, path

    def fetch_staged(self, app: str, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return those of *kinds* for which *app* has something staged."""
        with reading(self._engine) as connection:
            return tuple(
                kind for kind in kinds if files.has_staged(connection, app, kind)
            )

    def publish(
        self,
        by: Claimant,
        kinds: Sequence[str],
        *,
        notify: bool = False,  # noqa: ARG002 - docs/origin.md; nobody listens
    ) -> tuple[Move, ...]:
        """Make what is staged live, for *kinds*, in one transaction."""
        if "data" in kinds:
            self._check_files(by.app)
        moves: list[Move] = []
        with writing(self._engine) as connection:
            by.guard(connection)
            for kind in kinds:
                if not files.has_staged(connection, by.app, kind):
                    raise files.explain_nothing_staged(by.app, kind)
                moves += files.move_live(connection, by.app, kind, by.now)
        return tuple(moves)

    def _check_files(self, app: str) -> None:
        """Refuse to publish data whose file is gone, before any pointer moves."""
        for domain in self.fetch_domains(app):
            if domain.staged is not None and not domain.staged.path.is_file():
                self._refuse_if_gone()
                msg = (
                    f"domain {domain.name!r}: the file of staged version "
                    f"{domain.staged.number} is gone ({domain.staged.path}). "
                    "Refresh the domain."
                )
                raise StepError(msg, permanent=True)

    def summarize(self, domain: Domain, *, head: int) -> DomainSummary:
        """Return figures and the first *head* rows of the live version of *domain*."""
        version = domain.live
        if version is None:
            msg = f"domain {domain.name!r} was never published."
            raise StepError(msg, permanent=True)
        try:
            columns, rows = read_figures(version.path, head=head)
        except FileNotFoundError as error:
            self._refuse_if_gone()
            msg = (
                f"domain {domain.name!r}: the file of live version {version.number} "
                f"is gone ({version.path}). Refresh and publish the domain."
            )
            raise StepError(msg, permanent=True) from error
        except OSError as error:
            raise self._blame(error) from error
        return DomainSummary(
            domain=domain.name, version=version, columns=columns, head=rows
        )

    def keep_figures(self, by: Claimant, action_uid: str, figures: Figures) -> None:
        """Keep what a summary said, for the next one of its action."""
        with writing(self._engine) as connection:
            by.guard(connection)
            files.keep_figures(connection, by.app, action_uid, figures)

    def _refuse_if_gone(self) -> None:
        """
        Refuse an empty workspace: it may not be mounted.

        Raises:
            PlatformError: The workspace is empty, although versions are recorded.
        """
        try:
            if any(self._root.iterdir()):
                return
        except FileNotFoundError:
            pass  # as empty as can be
        except OSError as error:
            raise self._blame(error) from error
        with reading(self._engine) as connection:
            known = connection.execute(sa.select(domain_versions.c.app).limit(1))
            if known.first() is None:
                return
        # Files written now would disappear under the mount once it is back.
        raise PlatformError(
            f"the workspace {self._root} is empty, but should contain data: is it"
            " mounted? If it was emptied on purpose, create any folder in it"
        )

    def _blame(self, error: OSError) -> PlatformError:
        found = find_platform_error(error, folder=self._root)
        wrong = error.strerror or str(error)
        return found or PlatformError(
            f"the workspace {self._root} cannot be used: {wrong}"
        )

    def prune_versions(self, *, keep: int, now: datetime, limit: int) -> int:
        """Remove unused versions beyond the newest *keep* of each domain."""
        with blaming_platform(self._root):
            return files.prune_versions(
                self._engine,
                self._root,
                keep=keep,
                before=now - files.YOUNG,
                limit=limit,
            )

    def prune_files(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* files without a version, unchanged since *before*."""
        with blaming_platform(self._root):
            return files.prune_files(
                self._engine, self._root, before=before, limit=limit
            )


def _is_version(side: sa.FromClause, pointer: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        side.c.app == domains.c.app,
        side.c.domain == domains.c.name,
        side.c.version == domains.c[pointer],
    )


def _sync_and_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
        os.fsync(file.fileno())
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make renames in *folder* survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
