"""Delete a small app: its actions and keys end, and what it did stays known."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP, refuse_app
from actions.pausing.pause_state import UNPAUSED
from actions.posting.revisions import change_actions, lock_actions
from actions.small_apps.app_row import lock_app, refuse_stale
from models.database.engine import read_clock
from models.database.journal import note_change
from models.database.tables import (
    LIVE_OR_CLAIMED,
    api_keys,
    operations,
    scheduled_actions,
    sign_ins,
    small_apps,
)
from models.database.transaction import keep_leader_out
from models.errors import ConflictError
from models.revision import Change
from models.units import format_count


@dataclass(frozen=True, slots=True)
class DeletedApp:
    """What ended with a small app: how many of its actions, and of its API keys."""

    uid: str
    actions: int
    keys: int

    @property
    def told(self) -> str:
        """What every face says of it."""
        actions = format_count(self.actions, "action", "actions")
        keys = format_count(self.keys, "key", "keys")
        return f"Deleted small app {self.uid}, with {actions} and {keys}."


def delete_small_app(
    connection: sa.Connection,
    uid: str,
    *,
    by: str,
    expected_revision: int | None = None,
) -> DeletedApp:
    """
    Delete a small app: nothing of it is listed, runs, or can be asked for any more.

    Its actions are deleted, its keys are revoked and its pause ends. Its users, data,
    templates and operations stay in the database, and its uid stays taken: who applies
    its document again has all of that back, but not its actions and keys.

    Args:
        uid: Of the app.
        by: Who asks for it, such as ``root@host``.
        expected_revision: What the author has read. None: whatever it is.

    Raises:
        NotFoundError: There is no such app, or it is deleted already.
        StaleError: It has another revision than the expected one.
        ConflictError: It is the scheduler's own, or has live operations.
    """
    if uid == SYSTEM_APP:
        msg = f"small app {SYSTEM_APP!r} is the scheduler's own, and stays."
        raise ConflictError(msg)
    # Whoever records operations locks the app or its actions, or is the leader: after
    # these locks, no operation of the app can appear.
    keep_leader_out(connection)
    row = lock_app(connection, uid)
    if row is None or row.deleted_at is not None:
        refuse_app(connection, uid)
    refuse_stale(uid, row.revision, expected_revision)
    actions = lock_actions(connection, scheduled_actions.c.app == uid)
    _refuse_live(connection, uid)
    now = read_clock(connection)
    ended = {"deleted_at": now, "updated_at": now, "next_due_at": None}
    gone = [(action, ended) for action in actions]
    note = "with its small app"
    change_actions(connection, gone, Change.DELETED, by=by, note=note)
    keys = connection.execute(
        sa.update(api_keys)
        .where(api_keys.c.app == uid, api_keys.c.revoked_at.is_(None))
        .values(revoked_at=now, revoked_by=by)
    ).rowcount
    connection.execute(sa.delete(sign_ins).where(sign_ins.c.app == uid))
    connection.execute(
        sa.update(small_apps)
        .where(small_apps.c.uid == uid)
        .values(deleted_at=now, updated_at=now, revision=row.revision + 1, **UNPAUSED)
    )
    before, after = {"revision": row.revision}, {"actions": len(actions), "keys": keys}
    note_change(connection, "app", uid, "deleted", app=uid, before=before, after=after)
    return DeletedApp(uid, len(actions), keys)


def _refuse_live(connection: sa.Connection, uid: str) -> None:
    first = sa.func.min(sa.cast(operations.c.id, sa.Text))
    live = operations.c.app == uid, LIVE_OR_CLAIMED.of()
    query = sa.select(sa.func.count(), first).where(*live)
    count, example = connection.execute(query).one()
    if not count:
        return
    many = format_count(count, "operation that is", "operations that are")
    raise ConflictError(
        f"small app {uid!r} has {many} not over,"
        f" such as {example}. Wait, or cancel what runs"
        f" (minutehand operations cancel --app {uid})"
    )
