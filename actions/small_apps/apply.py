"""
Make a small app what its document says: users, domains, templates, holidays.

Parts that the document does not mention stay as they are. A part that it has is
complete: entries that are no longer listed are removed. Operations, events and versions
of removed entries stay as history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP
from actions.occurrences import next_due_at, parse_timing
from actions.posting.revisions import change_actions, lock_actions
from actions.read_actions import is_one_of
from actions.small_apps.app_row import PartChange, apply_settings, end_change, hold_app
from actions.small_apps.change_users import put_users
from actions.small_apps.export import fetch_holidays
from models.database.engine import read_clock
from models.database.journal import note_change
from models.database.tables import (
    app_documents,
    domain_versions,
    domains,
    holidays,
    scheduled_actions,
    small_apps,
    templates,
)
from models.days_off import DateRangeModel
from models.door.documents import read_action_object
from models.errors import ConflictError, InvalidDocumentError, Problem
from models.revision import Change
from models.small_app import (
    AppDocumentsModel,
    DomainModel,
    SmallAppModel,
    TemplateModel,
)
from models.timing import DayRange, make_timing, merge_days, timing_text


def apply_holidays(
    connection: sa.Connection,
    app: str,
    wanted: Mapping[str, Sequence[date | DateRangeModel]],
    *,
    now: datetime,
    by: str | None,
) -> tuple[PartChange, tuple[str, ...]]:
    """
    Make the holiday calendars of *app* those *wanted*.

    A calendar that is no longer listed becomes empty, since actions may still name it.

    Args:
        app: Uid of a small app that exists.
        wanted: Days and ranges of days, by the name of the calendar.
        now: Aware UTC.
        by: Who asks for it, such as ``root@host``.

    Returns:
        How many calendars were added, changed and emptied, and the uids of the
        actions whose occurrences changed.
    """
    stored = fetch_holidays(connection, app)
    asked = {name: _merge(days) for name, days in wanted.items()}
    asked |= dict.fromkeys(stored.keys() - asked.keys(), ())
    changed = [
        name
        for name, days in asked.items()
        if name not in stored or tuple(stored[name]) != days
    ]
    for name in changed:
        _add_version(connection, app, name, asked[name], now)
    retimed = _retime(connection, app, set(changed), now, by) if changed else ()
    added = len([name for name in changed if name not in stored])
    emptied = len([name for name in changed if name not in wanted])
    return PartChange(added, len(changed) - added - emptied, emptied), retimed


def _merge(days: Sequence[date | DateRangeModel]) -> tuple[DayRange, ...]:
    ranges = [
        (each.from_, each.until) if isinstance(each, DateRangeModel) else (each, each)
        for each in days
    ]
    return merge_days(ranges)


def _add_version(
    connection: sa.Connection,
    app: str,
    name: str,
    days: Sequence[DayRange],
    now: datetime,
) -> None:
    newest = (
        sa.select(sa.func.coalesce(sa.func.max(holidays.c.version), 0) + 1)
        .where(holidays.c.app == app, holidays.c.name == name)
        .scalar_subquery()
    )
    texts = [[first.isoformat(), last.isoformat()] for first, last in days]
    connection.execute(
        sa.insert(holidays).values(
            app=app, name=name, version=newest, days=texts, created_at=now
        )
    )


def _retime(
    connection: sa.Connection,
    app: str,
    changed: set[str],
    now: datetime,
    by: str | None,
) -> tuple[str, ...]:
    """Make the timing of the actions of *app* that except a changed calendar."""
    naming = _find_naming(connection, app, changed)
    rows = lock_actions(connection, is_one_of(connection, naming))
    known = fetch_holidays(connection, app)
    written = read_clock(connection)
    retimed: list[tuple[sa.Row[Any], Mapping[str, object]]] = []
    for row in rows:
        try:
            action = read_action_object(row.document)
        except InvalidDocumentError:
            continue  # quarantined, or will be when it is due
        timing = make_timing(action, created_at=row.created_at, holidays=known)
        assert timing is not None  # the query asked for time-driven ones
        text = timing_text(timing)
        if text == row.timing:
            continue
        due_at = next_due_at(
            parse_timing(text),
            row.uid,
            after=min(row.next_due_at or now, now) - timedelta.resolution,
            effective_from=row.effective_from,
        )
        values = {"timing": text, "next_due_at": due_at, "updated_at": written}
        retimed.append((row, values))
    change_actions(connection, retimed, Change.HOLIDAYS, by=by)
    return tuple(row.uid for row, _ in retimed)


def _find_naming(
    connection: sa.Connection, app: str, changed: set[str]
) -> Sequence[str]:
    """
    Return the time-driven actions of *app* that except a changed calendar.

    Nothing is locked: a tick waits for no action that stays as it is. The documents
    cannot change meanwhile, for whoever posts one holds the app, which is locked.
    """
    kept = scheduled_actions.c
    is_timed = (kept.app == app, kept.deleted_at.is_(None), kept.timing.is_not(None))
    may_name = sa.cast(kept.document, sa.Text).contains('"calendar"')
    query = sa.select(kept.uid, kept.document).where(*is_timed, may_name)
    rows = connection.execute(query)
    return [uid for uid, document in rows if not changed.isdisjoint(_name(document))]


def _name(document: Mapping[str, Any]) -> set[str]:
    """Return the calendars that a document names, even one that cannot be read."""
    excepted = document.get("except") or ()
    return {
        each["calendar"]
        for each in excepted
        if isinstance(each, dict) and "calendar" in each
    }


@dataclass(frozen=True, slots=True)
class ApplyTerms:
    """
    How a document is applied.

    Args:
        folder: The folder of the app's source files from now on; only an operator may
            set it. None: it stays as it is.
        raise_events: Whether events are recorded for users who are new, or newly
            activated or seen. A bulk import should not mail everybody.
        by: Who asks for it, such as ``root@host``.
        expected_revision: What the author has read; 0: there was no such app. None:
            whatever it is.
        may_create: Whether the author may make small apps, and bring them back.
    """

    folder: Path | None = None
    raise_events: bool = False
    by: str | None = None
    expected_revision: int | None = None
    may_create: bool = True


_PLAIN = ApplyTerms()


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


def apply_small_app(
    connection: sa.Connection, model: SmallAppModel, terms: ApplyTerms = _PLAIN
) -> Applied:
    """
    Make the small app *model.uid* what *model* says; create it if there is none.

    A deleted app is brought back, with all that it had but its actions and its keys.

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
    now, uid = read_clock(connection), model.uid
    known, may = terms.expected_revision, terms.may_create
    held = hold_app(connection, model, now=now, expected_revision=known, may_create=may)
    settings = apply_settings(connection, model, held.row, terms.folder)
    parts: dict[str, PartChange] = {}
    events = 0
    retimed: tuple[str, ...] = ()
    if model.users is not None:
        parts["users"], events = put_users(
            connection, uid, model.users, now=now, raise_events=terms.raise_events
        )
    if model.domains is not None:
        _check_files(connection, uid, model.domains)
    for part, (table, read) in _TABLES.items():
        wanted = getattr(model, part)
        if wanted is not None:
            parts[part] = _replace(connection, table, uid, read(wanted), now)
    if model.holidays is not None:
        parts["holidays"], retimed = apply_holidays(
            connection, uid, model.holidays, now=now, by=terms.by
        )
    changed = bool(settings) or any(parts.values())
    revision = end_change(connection, held, now=now, changed=changed)
    applied = Applied(
        uid, held.created, parts, retimed, events, revision, tuple(settings)
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
    before = {name: was for name, (was, _) in settings.items()}
    after = {name: is_now for name, (_, is_now) in settings.items()}
    after |= {"parts": parts, "revision": applied.revision}
    uid, change = applied.uid, "created" if applied.created else "applied"
    note_change(connection, "app", uid, change, app=uid, before=before, after=after)


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
                "An operator sets it (minutehand apps apply DIR, with app.json in DIR)"
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


_Rows = dict[str, dict[str, Any]]


def _read_domains(wanted: Sequence[DomainModel]) -> _Rows:
    rows = {}
    for each in wanted:
        labels = each.model_dump(exclude={"name", "source"}, exclude_none=True)
        rows[each.name] = {
            "source": each.source.model_dump(exclude_none=True),
            "labels": {key: value for key, value in labels.items() if value} or None,
        }
    return rows


def _read_templates(wanted: Mapping[str, TemplateModel]) -> _Rows:
    return {name: each.model_dump() for name, each in wanted.items()}


def _read_documents(wanted: AppDocumentsModel) -> _Rows:
    return {part: {"staged": staged} for part, staged in wanted if staged is not None}


#: The parts whose entries are rows with a name, and how they are read.
_TABLES: Mapping[str, tuple[sa.Table, Callable[[Any], _Rows]]] = {
    "domains": (domains, _read_domains),
    "templates": (templates, _read_templates),
    "documents": (app_documents, _read_documents),
}


def _replace(
    connection: sa.Connection, table: sa.Table, app: str, wanted: _Rows, now: datetime
) -> PartChange:
    """Make the rows of *app* those *wanted*, by name; documents are never removed."""
    key = list(table.primary_key)[1]
    columns = next(iter(wanted.values()), {})
    of_app = table.c.app == app
    query = sa.select(key, *(table.c[name] for name in columns)).where(of_app)
    stored = {
        name: dict(zip(columns, values, strict=True))
        for name, *values in connection.execute(query.with_for_update())
    }
    staged = {"staged_at": now} if table is app_documents else {}
    added = changed = 0
    for name, values in wanted.items():
        if name not in stored:
            row = {"app": app, key.name: name, **values, **staged}
            connection.execute(sa.insert(table).values(row))
            added += 1
        elif stored[name] != values:
            update = sa.update(table).where(of_app, key == name)
            connection.execute(update.values(**values, **staged))
            changed += 1
    gone = set() if staged else stored.keys() - wanted.keys()
    if gone and table is domains:
        # Maintenance removes the files that no version names any more.
        of_gone = domain_versions.c.app == app, domain_versions.c.domain.in_(gone)
        connection.execute(sa.delete(domain_versions).where(*of_gone))
    if gone:
        connection.execute(sa.delete(table).where(of_app, key.in_(gone)))
    return PartChange(added, changed, len(gone))
