"""
Publish and roll back at once, without a worker: only pointers move.

The rule of heavy operations holds: nothing moves while one of the app is under way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.journal import note_change
from models.database.tables import (
    UNDER_WAY_HEAVY,
    app_documents,
    domain_versions,
    domains,
    operations,
    small_apps,
)
from models.errors import ConflictError, NotFoundError
from models.requests.apps import MoveRequestModel
from operations.adapters.workspace_files import move_live
from operations.domains import Move


@dataclass(frozen=True, slots=True)
class Moved:
    """What was published or rolled back; empty: it was live already."""

    moves: tuple[Move, ...] = field(metadata={"serialization_alias": "moved"})


def publish_now(
    connection: sa.Connection, app: str, wanted: MoveRequestModel, *, workspace: Path
) -> Moved:
    """
    Make what is staged live, all that is wanted or none; mails nobody.

    Args:
        wanted: Data and documents, and which versions the caller has seen.
        workspace: Folder that all workers share, whose files must be there.

    Raises:
        ConflictError: A heavy operation of the app is under way; nothing is staged for
            one of the kinds; the file of a staged version is gone; or versions would
            become live that are not *expected*.
        NotFoundError: No such small app, or it has no such domain.
    """
    return _move(connection, app, wanted, _PUBLISH, workspace)


def roll_back_now(
    connection: sa.Connection, app: str, wanted: MoveRequestModel, *, workspace: Path
) -> Moved:
    """
    Make what was live before live again, all that is wanted or none.

    To roll back once more brings back what was live. The arguments and errors are those
    of ``publish_now``; there is nothing to go back to before the second publish.
    """
    return _move(connection, app, wanted, _ROLL_BACK, workspace)


class _Way(NamedTuple):
    """
    Which way pointers move.

    Args:
        word: For the record of changes.
        source: What becomes live: a version of domains, or a side of documents.
        lacks: What there is nothing of if it is empty.
        hints: What to do then: about data, and about a document.
    """

    word: str
    source: str
    lacks: str
    hints: tuple[str, str]


_PUBLISH = _Way(
    *("published", "staged", "staged"),
    ("Refresh the data first.", "Apply a document {!r} first."),
)
_ROLL_BACK = _Way(
    *("rolled back", "previous", "to go back to"),
    ("It was published once at most, so there is nothing to go back to.",) * 2,
)


def _move(
    connection: sa.Connection,
    app: str,
    wanted: MoveRequestModel,
    way: _Way,
    workspace: Path,
) -> Moved:
    versions = _hold(connection, app, wanted.domains, f"{way.source}_version")
    now = read_clock(connection)
    moves: list[Move] = []
    for kind in wanted.kinds:
        is_data = kind == "data"
        if not (versions if is_data else _has(connection, app, kind, way.source)):
            hint = way.hints[not is_data].format(kind)
            msg = f"small app {app!r} has nothing {way.lacks} for {kind}. {hint}"
            raise ConflictError(msg)
        if is_data:
            _refuse_unseen(versions, wanted.expected)
            _check_files(connection, app, versions, workspace)
        names, back = wanted.domains if is_data else None, way is _ROLL_BACK
        moves += move_live(connection, app, kind, now, back=back, names=names)
    if moves:
        note_change(
            *(connection, "data", app, way.word),
            app=app,
            before={f"{move.kind}/{move.name}": move.before for move in moves},
            after={f"{move.kind}/{move.name}": move.after for move in moves},
        )
    return Moved(tuple(moves))


def _hold(
    connection: sa.Connection, app: str, names: Sequence[str] | None, pointer: str
) -> dict[str, int]:
    """
    Lock the domains of *app*, and refuse while a heavy operation works on them.

    A worker that begins one later waits for these locks before it moves a pointer.

    Returns:
        The version at *pointer* of each of the domains *names* that has one.
    """
    here = (small_apps.c.uid == app, small_apps.c.deleted_at.is_(None))
    if connection.execute(sa.select(small_apps.c.uid).where(*here)).first() is None:
        raise NotFoundError(f"there is no small app {app!r}")
    # Looked for first, too: waiting for the locks of a refresh that stages its versions
    # could be in an order other than its own.
    _refuse_under_way(connection, app)
    rows = connection.execute(
        sa.select(domains.c.name, domains.c[pointer])
        .where(domains.c.app == app)
        .order_by(domains.c.name)
        .with_for_update()
    ).all()
    _refuse_under_way(connection, app)
    versions = {row[0]: row[1] for row in rows}
    unknown = [name for name in names or () if name not in versions]
    if unknown:
        refuse_domain(app, unknown[0])
    wanted = versions if names is None else names
    return {name: versions[name] for name in wanted if versions[name] is not None}


def refuse_domain(app: str, name: str) -> None:
    """
    Say that *app* has no domain *name*.

    Raises:
        NotFoundError: Always.
    """
    raise NotFoundError(f"small app {app!r} has no domain {name!r}")


def _refuse_under_way(connection: sa.Connection, app: str) -> None:
    found = connection.execute(
        sa.select(operations.c.id)
        .where(operations.c.app == app, UNDER_WAY_HEAVY.of())
        .limit(1)
    ).scalar_one_or_none()
    if found is not None:
        raise ConflictError(
            f"operation {found} refreshes or publishes data of small app {app!r} at"
            " this moment. Wait until it is over, or cancel it."
        )


def _refuse_unseen(
    versions: Mapping[str, int], expected: Mapping[str, int] | None
) -> None:
    """Refuse to make versions live that the caller has not seen."""
    if expected is None:
        return
    for name in sorted({*versions, *expected}):
        if versions.get(name) != expected.get(name):
            now, seen = (
                "no version" if each is None else f"version {each}"
                for each in (versions.get(name), expected.get(name))
            )
            raise ConflictError(
                f"{now} of domain {name!r} would become live, and {seen} was expected."
                " Nothing was changed. Look again, then ask with what you see"
            )


def _has(connection: sa.Connection, app: str, part: str, side: str) -> bool:
    """Lock a document, and tell whether *side* of it has something."""
    kept = app_documents.c
    found = sa.select(kept[side].is_not(None)).where(kept.app == app, kept.part == part)
    return bool(connection.scalar(found.with_for_update()))


def _check_files(
    connection: sa.Connection, app: str, versions: dict[str, int], workspace: Path
) -> None:
    """Refuse versions whose file is gone, before any pointer moves."""
    kept = domain_versions.c
    found = connection.execute(
        sa.select(kept.domain, kept.version, kept.path)
        .where(kept.app == app, kept.domain.in_(versions))
        .order_by(kept.domain)
    )
    for row in found:
        if row.version == versions[row.domain] and not (workspace / row.path).is_file():
            raise ConflictError(
                f"the file of version {row.version} of domain {row.domain!r} is gone"
                f" from the workspace, {workspace}. If that is mounted here, refresh"
                " the domain."
            )
