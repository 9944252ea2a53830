"""The row of a small app: its own settings, its revision, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from models.database.tables import small_apps
from models.errors import NotFoundError, StaleError
from models.small_app import SmallAppModel


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
class HeldApp:
    """
    A small app that is locked against other changes until the commit.

    Args:
        row: As it was; of a new app, as it was just inserted.
        created: Whether it is new, or is brought back.
        inserted: Whether it is new.
    """

    row: sa.Row[Any]
    created: bool
    inserted: bool


def hold_app(
    connection: sa.Connection,
    model: SmallAppModel,
    *,
    now: datetime,
    expected_revision: int | None,
    may_create: bool,
) -> HeldApp:
    """
    Lock the small app *model.uid*; insert it if there is none.

    Args:
        now: Aware UTC.
        expected_revision: What the author has read; 0: there was no such app. None:
            whatever it is.
        may_create: Whether the author may make small apps, and bring them back.

    Raises:
        NotFoundError: There is none, and the author may not create one.
        StaleError: It has another revision.
    """
    inserted = may_create and _insert(connection, model, now)
    row = lock_app(connection, model.uid)
    exists = row is not None and row.deleted_at is None and not inserted
    if not exists and not may_create:
        raise NotFoundError(f"there is no small app {model.uid!r}")
    assert row is not None  # it exists, or was inserted
    refuse_stale(row.uid, row.revision if exists else 0, expected_revision)
    return HeldApp(row, not exists, inserted)


def _insert(connection: sa.Connection, model: SmallAppModel, now: datetime) -> bool:
    row = {"uid": model.uid, "name": model.name or model.uid}
    new = insert(small_apps).values(**row, created_at=now, updated_at=now)
    made = new.on_conflict_do_nothing().returning(small_apps.c.uid)
    return connection.execute(made).one_or_none() is not None


def lock_app(connection: sa.Connection, uid: str) -> sa.Row[Any] | None:
    """Return a small app, deleted or not, locked against changes; None: none."""
    return connection.execute(
        sa.select(small_apps)
        .where(small_apps.c.uid == uid)
        # Rows that refer to it, such as events, may be inserted meanwhile.
        .with_for_update(key_share=True)
    ).one_or_none()


def refuse_stale(uid: str, current: int, expected: int | None) -> None:
    """
    Refuse a change of an app that is no longer what its author has read.

    Raises:
        StaleError: Its revision, *current*, is not the *expected* one.
    """
    if expected is None or expected == current:
        return
    if current == 0:
        msg = f"there is no small app {uid!r} with revision {expected}, or any other"
    elif expected == 0:
        msg = f"small app {uid!r} exists, with revision {current}"
    else:
        msg = (
            f"small app {uid!r} has revision {current} now, not {expected}. Read it"
            " again, and repeat the change."
        )
    raise StaleError(msg, current=current)


def apply_settings(
    connection: sa.Connection,
    model: SmallAppModel,
    row: sa.Row[Any],
    folder: Path | None,
) -> dict[str, tuple[object, object]]:
    """
    Write the app's own settings, as far as *model* has them.

    Returns:
        Those that changed, with what is told of the value before and after.
    """
    given: dict[str, object] = {}
    if model.name is not None:
        given["name"] = model.name
    if "timezone" in model.model_fields_set:
        given["timezone"] = model.timezone
    if folder is not None:
        # Resolved, so that no change of a symbolic link can move it later.
        given["source_folder"] = str(folder.resolve())
    for name in ("notices", "mail"):
        if name in model.model_fields_set:
            part = getattr(model, name)
            said = part and part.model_dump(mode="json", exclude_none=True)
            # with nobody to tell, or nothing to write, there is none
            has_some = said and any(each != [] for each in said.values())
            given[name] = said if has_some else None
    changed = {
        name: value for name, value in given.items() if getattr(row, name) != value
    }
    if changed:
        connection.execute(
            sa.update(small_apps).where(small_apps.c.uid == row.uid).values(**changed)
        )
    return {
        name: (_tell(name, getattr(row, name)), _tell(name, value))
        for name, value in changed.items()
    }


def _tell(name: str, value: Any) -> object:
    """Return *value* without secrets: the address of a webhook may hold a key."""
    if name != "notices" or value is None:
        return value
    return {"mail": value.get("mail", []), "webhook": "webhook" in value}


def end_change(
    connection: sa.Connection, held: HeldApp, *, now: datetime, changed: bool
) -> int:
    """Raise the revision of a known app if something changed; return its revision."""
    if held.inserted:
        return 1
    if not (changed or held.created):
        return int(held.row.revision)
    connection.execute(
        sa.update(small_apps)
        .where(small_apps.c.uid == held.row.uid)
        .values(revision=held.row.revision + 1, updated_at=now, deleted_at=None)
    )
    return int(held.row.revision) + 1
