"""
The data of a small app: what is staged and live, how fresh it is, and its columns.

Columns are read from the end of the files of the workspace, which this process may not
have: then it says so. No data is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.lookup import fetch_app
from models.database.engine import read_clock
from models.database.lists import cut_part
from models.database.tables import domain_versions, domains, operation_steps, operations
from models.errors import StepError
from models.fields.duration import Duration
from models.json_form import ASIDE, get_members
from models.operation_state import StepState
from models.paging import Page, Part
from operations.adapters.polars_io import read_schema
from operations.publish_now import refuse_domain
from overview.small_apps import get_labels, hide_source


@dataclass(frozen=True, slots=True)
class DataColumn:
    """A column of a version of data, and its type, in the words of Polars."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class RetypedColumn:
    """A column whose type is another in the staged version."""

    name: str
    live: str
    staged: str


@dataclass(frozen=True, slots=True)
class DataVersion:
    """
    A version of the data of a domain.

    ``created_at`` is when it was read, and ``age`` how long ago that is; ``etag`` and
    ``last_modified`` are what the source said about itself then.
    """

    number: int = field(metadata={"serialization_alias": "version"})
    rows: int
    size: int = field(metadata={"serialization_alias": "bytes"})
    sha256: str
    created_at: datetime
    age: str
    etag: str | None
    last_modified: str | None
    operation_id: UUID | None = field(metadata={"serialization_alias": "operation"})
    #: Below the workspace.
    path: str = field(metadata=ASIDE)


@dataclass(frozen=True, slots=True)
class DataDomain:
    """
    A domain of a small app, with its versions; its source is without secrets.

    ``is_changed`` tells whether what is staged is not live.
    """

    name: str
    source: Mapping[str, Any]
    staged: DataVersion | None
    live: DataVersion | None
    former: DataVersion | None
    published_at: datetime | None
    is_changed: bool
    title: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class DataDifference:
    """How the staged version differs from the live one; null: one is not known."""

    rows: int | None
    size: int | None = field(metadata={"serialization_alias": "bytes"})
    added_columns: list[DataColumn] | None
    removed_columns: list[DataColumn] | None
    changed_columns: list[RetypedColumn] | None


@dataclass(frozen=True, slots=True)
class DetailedDomain(DataDomain):
    """The same, with the columns of two versions; null: *problem* says why."""

    staged_columns: list[DataColumn] | None
    live_columns: list[DataColumn] | None
    difference: DataDifference
    problem: str | None


_Columns = Mapping[str, str]


def _list(columns: _Columns | None) -> list[DataColumn] | None:
    if columns is None:
        return None
    return [DataColumn(name, kind) for name, kind in columns.items()]


def _compare(
    domain: DataDomain, new: _Columns | None, old: _Columns | None
) -> DataDifference:
    """Return how the staged version, with the columns *new*, differs from the live."""
    staged, live = domain.staged, domain.live
    rows = size = added = removed = changed = None
    if staged is not None and live is not None:
        rows, size = staged.rows - live.rows, staged.size - live.size
    if new is not None and old is not None:
        added = _list({name: new[name] for name in new if name not in old})
        removed = _list({name: old[name] for name in old if name not in new})
        changed = [
            RetypedColumn(name, old[name], kind)
            for name, kind in new.items()
            if name in old and old[name] != kind
        ]
    return DataDifference(rows, size, added, removed, changed)


def fetch_domain_part(
    connection: sa.Connection, app: str, page: Page
) -> Part[DataDomain]:
    """
    Return a part of the domains of *app*, by name.

    Raises:
        NotFoundError: No such small app.
    """
    fetch_app(connection, app)
    name = domains.c.name
    query = sa.select(domains).where(domains.c.app == app)
    if (after := page.read_after(str)) is not None:
        query = query.where(name > after[0])
    rows = connection.execute(query.order_by(name).limit(page.limit + 1)).all()
    part = cut_part(rows, page, [name])
    return Part(_add_versions(connection, app, part.entries), part.following)


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
    staged = live = _read_columns(domain.staged, workspace, problems)
    if domain.live != domain.staged:
        live = _read_columns(domain.live, workspace, problems)
    return DetailedDomain(
        **get_members(domain),
        staged_columns=_list(staged),
        live_columns=_list(live),
        difference=_compare(domain, staged, live),
        problem=next(iter(problems), None),
    )


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
            *(each.version, each.rows, each.bytes, each.sha256, each.created_at),
            _tell_age(now - each.created_at),
            *(each.etag, each.last_modified, each.operation_id, each.path),
        )
        for each in connection.execute(
            sa.select(domain_versions).where(
                kept.app == app, sa.tuple_(kept.domain, kept.version).in_(keys)
            )
        )
    }
    return [
        DataDomain(
            row.name,
            hide_source(row.source),
            staged := found.get((row.name, row.staged_version)),
            live := found.get((row.name, row.live_version)),
            found.get((row.name, row.previous_version)),
            row.published_at,
            staged is not None and staged != live,
            *get_labels(row),
        )
        for row in rows
    ]


def _tell_age(age: timedelta) -> str:
    whole = timedelta(seconds=max(0, int(age.total_seconds())))
    return str(Duration.from_elapsed(whole))


#: How many of the latest operations of an app are looked at.
LATEST = 1_000

#: The lists in the results of these steps that name what they touched.
_NAMED = {"refresh": ("refreshed", "reused"), "publish": ("published",)}


@dataclass(frozen=True, slots=True)
class Touched:
    """
    What one step touched: names of domains, or of what was published.

    ``kind`` of a refresh: whole (every domain was read), partial, or reused (none was).
    """

    operation: UUID
    action_uid: str
    finished_at: datetime
    kind: str
    refreshed: list[str]
    reused: list[str]
    published: list[str]


def fetch_touched(connection: sa.Connection, app: str) -> dict[str, Touched]:
    """
    Return the latest success of "refresh" and of "publish" in *app*, by step.

    Without those that lie beyond the LATEST operations of the app.
    """
    kept = operations.c
    latest = (
        sa.select(kept.id, kept.action_uid)
        .where(kept.app == app)
        .order_by(kept.recorded_at.desc())
        .limit(LATEST)
        .subquery()
    )
    step = operation_steps.c
    rows = connection.execute(
        sa.select(
            latest.c.id, latest.c.action_uid, step.finished_at, step.name, step.result
        )
        .join_from(latest, operation_steps, step.operation_id == latest.c.id)
        .where(step.name.in_(_NAMED), step.state == StepState.SUCCEEDED)
        .order_by(step.finished_at)
    )
    # Later ones replace earlier ones.
    return {row.name: _make_touched(row) for row in rows}


def _make_touched(row: Any) -> Touched:
    result = row.result or {}
    refreshed, reused, published = (
        list(result.get(key) or ()) if key in _NAMED[row.name] else []
        for key in ("refreshed", "reused", "published")
    )
    kind = "whole" if not reused else "partial" if refreshed else "reused"
    kind = "publish" if row.name == "publish" else kind
    done = row.id, row.action_uid, row.finished_at
    return Touched(*done, kind, refreshed, reused, published)
