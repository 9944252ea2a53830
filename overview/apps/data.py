"""
The data of a small app: what is staged and live, how fresh it is, and its columns.

Columns are read from the end of the files of the workspace, which this process may not
have: then it says so. No data is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import fetch_app
from models.database.engine import read_clock
from models.database.tables import domain_versions, domains
from models.errors import StepError
from models.fields.duration import Duration
from models.paging import Page, Part
from operations.adapters.polars_io import read_schema
from operations.publish_now import refuse_domain
from overview.apps.shown import get_labels, hide_source


class ColumnJson(TypedDict):
    """A column of a version of data, and its type, in the words of Polars."""

    name: str
    type: str


class DataVersionJson(TypedDict):
    """A version of the data of a domain."""

    version: int
    rows: int
    bytes: int
    sha256: str
    # when it was read, and how long ago that is
    created_at: datetime
    age: str
    # what the source said about itself then
    etag: str | None
    last_modified: str | None
    # the operation that read it
    operation: UUID | None


class DomainJson(TypedDict):
    """A domain of a small app, with its versions; its source is without secrets."""

    name: str
    source: Mapping[str, Any]
    staged: DataVersionJson | None
    live: DataVersionJson | None
    former: DataVersionJson | None
    published_at: datetime | None
    # whether what is staged is not live
    is_changed: bool
    # as the document of the app has them
    title: str | None
    description: str | None


class DetailedDomainJson(DomainJson):
    """The same, with the columns of two versions; null: *problem* says why."""

    staged_columns: list[ColumnJson] | None
    live_columns: list[ColumnJson] | None
    problem: str | None


class TypeChangeJson(TypedDict):
    """A column whose type is another in the staged version."""

    name: str
    live: str
    staged: str


class DataDifferenceJson(TypedDict):
    """How the staged version of a domain differs from the live one."""

    name: str
    staged: DataVersionJson | None
    live: DataVersionJson | None
    rows: int | None
    bytes: int | None
    added_columns: list[ColumnJson] | None
    removed_columns: list[ColumnJson] | None
    changed_columns: list[TypeChangeJson] | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class DataVersion:
    """
    A version of the data of a domain.

    Args:
        path: Below the workspace.
        now: The database's clock, aware UTC.
    """

    number: int
    path: str
    rows: int
    size: int
    sha256: str
    etag: str | None
    last_modified: str | None
    operation_id: UUID | None
    created_at: datetime
    now: datetime

    def as_json(self) -> DataVersionJson:
        """Return the documented object; keys are only added."""
        age_s = max(0, int((self.now - self.created_at).total_seconds()))
        return {
            "version": self.number,
            "rows": self.rows,
            "bytes": self.size,
            "sha256": self.sha256,
            "created_at": self.created_at,
            "age": str(Duration.from_elapsed(timedelta(seconds=age_s))),
            "etag": self.etag,
            "last_modified": self.last_modified,
            "operation": self.operation_id,
        }


@dataclass(frozen=True, slots=True)
class DataDomain:
    """A domain with its versions; *source* is without secrets."""

    name: str
    source: Mapping[str, Any]
    staged: DataVersion | None
    live: DataVersion | None
    former: DataVersion | None
    published_at: datetime | None
    title: str | None = None
    description: str | None = None

    def as_json(self) -> DomainJson:
        """Return the documented object; keys are only added."""
        return {
            "name": self.name,
            "source": self.source,
            "staged": _as_json(self.staged),
            "live": _as_json(self.live),
            "former": _as_json(self.former),
            "published_at": self.published_at,
            "is_changed": self.staged is not None and self.staged != self.live,
            "title": self.title,
            "description": self.description,
        }


def _as_json(version: DataVersion | None) -> DataVersionJson | None:
    return None if version is None else version.as_json()


_Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DetailedDomain:
    """
    A domain with the columns of its versions.

    Args:
        staged: Name to type. None: nothing is staged, or *problem* says why not.
        live: The same of what is live.
    """

    domain: DataDomain
    staged: _Columns | None
    live: _Columns | None
    problem: str | None

    def as_json(self) -> DetailedDomainJson:
        """Return the documented object; keys are only added."""
        return {
            **self.domain.as_json(),
            "staged_columns": _list(self.staged),
            "live_columns": _list(self.live),
            "problem": self.problem,
        }

    def compare(self) -> DataDifferenceJson:
        """Return how the staged version differs from the live one."""
        staged, live = self.domain.staged, self.domain.live
        new, old = self.staged, self.live
        told: DataDifferenceJson = {
            "name": self.domain.name,
            "staged": _as_json(staged),
            "live": _as_json(live),
            "rows": None,
            "bytes": None,
            "added_columns": None,
            "removed_columns": None,
            "changed_columns": None,
            "problem": self.problem,
        }
        if staged is not None and live is not None:
            told["rows"] = staged.rows - live.rows
            told["bytes"] = staged.size - live.size
        if new is not None and old is not None:
            told["added_columns"] = _list({n: new[n] for n in new if n not in old})
            told["removed_columns"] = _list({n: old[n] for n in old if n not in new})
            told["changed_columns"] = [
                {"name": name, "live": old[name], "staged": kind}
                for name, kind in new.items()
                if name in old and old[name] != kind
            ]
        return told


def _list(columns: _Columns | None) -> list[ColumnJson] | None:
    if columns is None:
        return None
    return [{"name": name, "type": kind} for name, kind in columns.items()]


def fetch_domain_part(
    connection: sa.Connection, app: str, page: Page
) -> Part[DataDomain]:
    """
    Return a part of the domains of *app*, by name.

    Raises:
        NotFoundError: No such small app.
    """
    fetch_app(connection, app)
    query = (
        sa.select(domains)
        .where(domains.c.app == app)
        .order_by(domains.c.name)
        .limit(page.limit + 1)
    )
    after = page.read_after(str)
    if after is not None:
        query = query.where(domains.c.name > after[0])
    rows = connection.execute(query).all()
    found = _add_versions(connection, app, rows[: page.limit])
    more = len(rows) > page.limit
    return Part(found, (found[-1].name,) if more else None)


def fetch_detailed_domain(
    connection: sa.Connection, app: str, name: str, *, workspace: Path
) -> DetailedDomain:
    """
    Return a domain with the columns of its staged and its live version.

    Args:
        name: Of the domain.
        workspace: Folder of the versions.

    Raises:
        NotFoundError: No such small app or domain.
    """
    fetch_app(connection, app)
    rows = connection.execute(
        sa.select(domains).where(domains.c.app == app, domains.c.name == name)
    ).all()
    if not rows:
        refuse_domain(app, name)
    (domain,) = _add_versions(connection, app, rows)
    problems: list[str] = []
    staged = _read_columns(domain.staged, workspace, problems)
    live = (
        staged
        if domain.live == domain.staged
        else _read_columns(domain.live, workspace, problems)
    )
    return DetailedDomain(domain, staged, live, next(iter(problems), None))


def _read_columns(
    version: DataVersion | None, workspace: Path, problems: list[str]
) -> _Columns | None:
    if version is None:
        return None
    try:
        return dict(read_schema(workspace / version.path))
    except OSError as error:
        why = error.strerror or type(error).__name__
        problems.append(
            f"the file of version {version.number} cannot be read here: {why}"
        )
    except StepError as error:
        problems.append(str(error))
    return None


def _add_versions(
    connection: sa.Connection, app: str, rows: Sequence[sa.Row[Any]]
) -> list[DataDomain]:
    kept = domain_versions.c
    keys = {
        (row.name, version)
        for row in rows
        for version in (row.staged_version, row.live_version, row.previous_version)
        if version is not None
    }
    now = read_clock(connection)
    found = {
        (each.domain, each.version): DataVersion(
            number=each.version,
            path=each.path,
            rows=each.rows,
            size=each.bytes,
            sha256=each.sha256,
            etag=each.etag,
            last_modified=each.last_modified,
            operation_id=each.operation_id,
            created_at=each.created_at,
            now=now,
        )
        for each in connection.execute(
            sa.select(domain_versions).where(
                kept.app == app, sa.tuple_(kept.domain, kept.version).in_(keys)
            )
        )
    }
    return [
        DataDomain(
            name=row.name,
            source=hide_source(row.source),
            staged=found.get((row.name, row.staged_version)),
            live=found.get((row.name, row.live_version)),
            former=found.get((row.name, row.previous_version)),
            published_at=row.published_at,
            title=title,
            description=description,
        )
        for row in rows
        for title, description in (get_labels(row),)
    ]
