"""
Make a small app what its document says: users, domains, templates, holidays.

Parts that the document does not mention stay as they are. A part that it has is
complete: entries that are no longer listed are removed. Operations, events and versions
of removed entries stay as history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.posting.post import SYSTEM_APP
from actions.small_apps.apply_holidays import apply_holidays
from actions.small_apps.apply_users import apply_users
from models.database.engine import read_clock
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
    """How many entries of a part were added, changed and removed."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """
    What applying a document did.

    Args:
        parts: The parts that the document mentions, by name.

        retimed: Uids of actions whose occurrences changed with a holiday calendar.

        events: How many events were recorded for users.
    """

    uid: str
    created: bool
    parts: dict[str, PartChange] = field(default_factory=dict)
    retimed: tuple[str, ...] = ()
    events: int = 0

    def as_json(self) -> dict[str, object]:
        """Return the object that ``apps apply --json`` prints."""
        return asdict(self)


def apply_small_app(
    connection: sa.Connection,
    model: SmallAppModel,
    *,
    folder: Path | None = None,
    raise_events: bool = False,
    by: str | None = None,
) -> Applied:
    """
    Make the small app *model.uid* what *model* says; create it if there is none.

    Args:
        connection: In a transaction of its own.

        model: As the door read it.

        folder: The folder of the app's source files from now on; only an operator may
            set it. None: it stays as it is.

        raise_events: Whether events are recorded for users who are new, or newly
            activated or seen. A bulk import should not mail everybody.

        by: Who asks for it, such as ``root@host``.

    Raises:
        ConflictError: If the uid is that of the scheduler's own app.

        InvalidDocumentError: If a source is a file, and the app has no folder or the
            file is outside it.
    """
    if model.uid == SYSTEM_APP:
        msg = f"small app {SYSTEM_APP!r} is the scheduler's own. Choose another uid."
        raise ConflictError(msg)
    now = read_clock(connection)
    created = _apply_app(connection, model, now, folder)
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
    return Applied(model.uid, created, parts, retimed, events)


def _apply_app(
    connection: sa.Connection,
    model: SmallAppModel,
    now: datetime,
    folder: Path | None,
) -> bool:
    """Insert or update the row of the app itself; return whether it is new."""
    made = connection.execute(
        insert(small_apps)
        .values(
            uid=model.uid,
            name=model.name or model.uid,
            timezone=model.timezone,
            source_folder=_text_or_none(folder),
            notices=_make_notices(model),
            created_at=now,
            updated_at=now,
        )
        .on_conflict_do_nothing()
        .returning(small_apps.c.uid)
    ).one_or_none()
    if made is not None:
        return True
    given: dict[str, object] = {"updated_at": now}
    if model.name is not None:
        given["name"] = model.name
    if "timezone" in model.model_fields_set:
        given["timezone"] = model.timezone
    if folder is not None:
        given["source_folder"] = _text_or_none(folder)
    if "notices" in model.model_fields_set:
        given["notices"] = _make_notices(model)
    connection.execute(
        sa.update(small_apps).where(small_apps.c.uid == model.uid).values(**given)
    )
    return False


def _text_or_none(folder: Path | None) -> str | None:
    # Resolved, so that no change of a symbolic link can move it later.
    return None if folder is None else str(folder.resolve())


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


def _make_notices(model: SmallAppModel) -> dict[str, Any] | None:
    """Return who gets notices, in the form that is stored; None: nobody."""
    notices = model.notices
    if notices is None or not (notices.mail or notices.webhook):
        return None
    return notices.model_dump(mode="json", exclude_none=True)


def _apply_domains(
    connection: sa.Connection, app: str, wanted: Sequence[DomainModel]
) -> PartChange:
    rows = {
        each.name: {"source": each.source.model_dump(exclude_none=True)}
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
