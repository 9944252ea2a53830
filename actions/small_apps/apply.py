"""
Make a small app what its document says: users, domains, templates, holidays.

Parts that the document does not mention stay as they are. A part that it has is
complete: entries that are no longer listed are removed. Operations, events and versions
of removed entries stay as history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP
from actions.small_apps.app_row import apply_settings, end_change, hold_app
from actions.small_apps.apply_holidays import apply_holidays
from actions.small_apps.apply_users import apply_users
from models.database.engine import read_clock
from models.database.journal import note_change
from models.database.tables import (
    app_documents,
    domain_versions,
    domains,
    small_apps,
    templates,
)
from models.errors import ConflictError, InvalidDocumentError, Problem
from models.small_app import DomainModel, SmallAppModel


@dataclass(frozen=True, slots=True)
class PartChange:
    """How many entries of a part of a small app were added, changed and removed."""

    added: int
    changed: int
    removed: int

    def __bool__(self) -> bool:
        """Return whether anything of it changed."""
        return (self.added, self.changed, self.removed) != (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Applied:
    """
    What applying the document of a small app did.

    ``parts`` are those that the document mentions; ``retimed`` the actions whose
    occurrences changed with a holiday calendar; ``events`` how many were recorded for
    users; ``settings`` which of the app's own changed, such as "timezone". The
    revision is raised only if something changed.
    """

    uid: str
    created: bool
    parts: dict[str, PartChange]
    retimed: tuple[str, ...]
    events: int
    revision: int
    settings: tuple[str, ...]


def apply_small_app(  # noqa: PLR0913 - what differs between the faces
    connection: sa.Connection,
    model: SmallAppModel,
    *,
    folder: Path | None = None,
    raise_events: bool = False,
    by: str | None = None,
    expected_revision: int | None = None,
    may_create: bool = True,
) -> Applied:
    """
    Make the small app *model.uid* what *model* says; create it if there is none.

    A deleted app is brought back, with all that it had but its actions and its keys.

    Args:
        folder: The folder of the app's source files from now on; only an operator may
            set it. None: it stays as it is.
        raise_events: Whether events are recorded for users who are new, or newly
            activated or seen. A bulk import should not mail everybody.
        by: Who asks for it, such as ``root@host``.
        expected_revision: What the author has read; 0: there was no such app. None:
            whatever it is.
        may_create: Whether the author may make small apps, and bring them back.

    Raises:
        ConflictError: If the uid is that of the scheduler's own app.
        NotFoundError: If there is no such app, and the author may not create one.
        StaleError: If the app has another revision than the expected one.
        InvalidDocumentError: If a source is a file, and the app has no folder or the
            file is outside it.
    """
    if model.uid == SYSTEM_APP:
        msg = f"small app {SYSTEM_APP!r} is the scheduler's own. Choose another uid."
        raise ConflictError(msg)
    now = read_clock(connection)
    held = hold_app(
        connection,
        model,
        now=now,
        expected_revision=expected_revision,
        may_create=may_create,
    )
    settings = apply_settings(connection, model, held.row, folder)
    parts: dict[str, PartChange] = {}
    events = 0
    retimed: tuple[str, ...] = ()
    if model.users is not None:
        counts, events = apply_users(
            connection, model.uid, model.users, now=now, raise_events=raise_events
        )
        parts["users"] = PartChange(*counts)
    if model.domains is not None:
        _check_files(connection, model.uid, model.domains)
        parts["domains"] = _apply_domains(connection, model.uid, model.domains)
    if model.templates is not None:
        parts["templates"] = _apply_templates(connection, model)
    if model.documents is not None:
        parts["documents"] = _apply_documents(connection, model, now)
    if model.holidays is not None:
        counts, retimed = apply_holidays(
            connection, model.uid, model.holidays, now=now, by=by
        )
        parts["holidays"] = PartChange(*counts)
    changed = bool(settings) or any(parts.values())
    revision = end_change(connection, held, now=now, changed=changed)
    applied = Applied(
        model.uid, held.created, parts, retimed, events, revision, tuple(settings)
    )
    _note(connection, applied, settings)
    return applied


def _note(
    connection: sa.Connection,
    applied: Applied,
    settings: Mapping[str, tuple[object, object]],
) -> None:
    """Note what was changed, if anything was: counts, and the values of settings."""
    parts = {name: asdict(each) for name, each in applied.parts.items() if each}
    if not (applied.created or settings or parts):
        return
    note_change(
        connection,
        "app",
        applied.uid,
        "created" if applied.created else "applied",
        app=applied.uid,
        before={name: before for name, (before, _) in settings.items()},
        after={
            **{name: after for name, (_, after) in settings.items()},
            "parts": parts,
            "revision": applied.revision,
        },
    )


def _check_files(
    connection: sa.Connection, app: str, wanted: Sequence[DomainModel]
) -> None:
    """Refuse files that no worker would read; workers check links themselves."""
    folder = connection.execute(
        sa.select(small_apps.c.source_folder).where(small_apps.c.uid == app)
    ).scalar_one()
    problems = []
    for number, each in enumerate(wanted):
        file = each.source.file
        if file is None:
            continue
        if folder is None:
            message = f"Small app {app!r} has no folder for source files."
            hint = (
                "An operator sets it by applying a folder with app.json in it: "
                "minutehand apps apply DIR"
            )
        elif Path(file).is_absolute() and not Path(file).is_relative_to(folder):
            message = f"{file[:60]!r} is not below the app's folder, {folder}."
            hint = "Write the path relative to that folder."
        else:
            continue
        pointer = f"/domains/{number}/source/file"
        problems.append(Problem(pointer, message, hint))
    if problems:
        raise InvalidDocumentError(tuple(problems))


def _apply_domains(
    connection: sa.Connection, app: str, wanted: Sequence[DomainModel]
) -> PartChange:
    rows = {
        each.name: {
            "source": each.source.model_dump(exclude_none=True),
            "labels": _get_labels(each),
        }
        for each in wanted
    }

    def forget(name: str) -> None:
        # Maintenance removes the files that no version names any more.
        connection.execute(
            sa.delete(domain_versions).where(
                domain_versions.c.app == app, domain_versions.c.domain == name
            )
        )

    return _replace(connection, domains, app, rows, before_removal=forget)


def _get_labels(domain: DomainModel) -> dict[str, Any] | None:
    """Return how a domain is shown, in the form that is stored; None: as it is."""
    labels = domain.model_dump(exclude={"name", "source"}, exclude_none=True)
    return {name: value for name, value in labels.items() if value} or None


def _apply_templates(connection: sa.Connection, model: SmallAppModel) -> PartChange:
    rows = {
        name: {"subject": each.subject, "text": each.text, "html": each.html}
        for name, each in (model.templates or {}).items()
    }
    return _replace(connection, templates, model.uid, rows)


def _replace(
    connection: sa.Connection,
    table: sa.Table,
    app: str,
    wanted: dict[str, dict[str, Any]],
    *,
    before_removal: Callable[[str], None] | None = None,
) -> PartChange:
    """Make the rows of *app* in *table* those *wanted*, by their key ``name``."""
    columns = [table.c.name, *(table.c[name] for name in _get_columns(wanted))]
    stored = {
        row["name"]: {key: row[key] for key in row if key != "name"}
        for row in connection.execute(
            sa.select(*columns).where(table.c.app == app).with_for_update()
        ).mappings()
    }
    added = changed = removed = 0
    for name, values in wanted.items():
        here = sa.and_(table.c.app == app, table.c.name == name)
        if name not in stored:
            connection.execute(sa.insert(table).values(app=app, name=name, **values))
            added += 1
        elif stored[name] != values:
            connection.execute(sa.update(table).where(here).values(**values))
            changed += 1
    for name in stored.keys() - wanted.keys():
        if before_removal is not None:
            before_removal(name)
        connection.execute(
            sa.delete(table).where(table.c.app == app, table.c.name == name)
        )
        removed += 1
    return PartChange(added, changed, removed)


def _get_columns(wanted: dict[str, dict[str, Any]]) -> list[str]:
    return list(next(iter(wanted.values()), {}))


def _apply_documents(
    connection: sa.Connection, model: SmallAppModel, now: datetime
) -> PartChange:
    """Stage the documents that are given; publish makes them live."""
    added = changed = 0
    given = {} if model.documents is None else dict(model.documents)
    for part, staged in given.items():
        if staged is None:
            continue
        here = (app_documents.c.app == model.uid, app_documents.c.part == part)
        values = {"staged": staged, "staged_at": now}
        stored = connection.execute(
            sa.select(app_documents.c.staged).where(*here).with_for_update()
        ).one_or_none()
        if stored is None:
            connection.execute(
                sa.insert(app_documents).values(app=model.uid, part=part, **values)
            )
            added += 1
        elif stored.staged != staged:
            connection.execute(sa.update(app_documents).where(*here).values(**values))
            changed += 1
    return PartChange(added, changed, 0)
