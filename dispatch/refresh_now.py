"""
Refresh data now, because somebody asks for it: a manual operation, which a worker runs.

An operation needs an action, so each small app gets one for this, the first time. It is
listed as any other; it is inactive, so nothing but such a request runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.pausing.pause_state import hold_pause
from actions.posting.post import Posting, post_action
from actions.small_apps.export import fetch_domains
from dispatch.manual_runs import find_requested_id
from models.database.engine import read_clock
from models.database.journal import note_change
from models.database.tables import scheduled_actions
from models.decision import NewOperation, make_triggered_by
from models.door.documents import action_document
from models.errors import ConflictError
from models.occurrence import make_manual_id
from models.operation import OperationModel, RefreshModel
from models.operation_state import OperationState, Overlap, Queue, Trigger
from models.scheduled_action import ScheduledActionModel
from models.when import OnEventModel
from operations.publish_now import refuse_domain
from operations.record import record

#: The name of the action.
REFRESH_NAME = "refresh on request"

#: Every action has a rule; this one waits for an event that nobody needs to send.
_EVENT = "app.refresh_on_request"


@dataclass(frozen=True, slots=True)
class BegunRefresh:
    """The operation that refreshes."""

    operation_id: UUID = field(metadata={"serialization_alias": "operation"})


def refresh_now(
    connection: sa.Connection,
    app: str,
    names: Sequence[str] | None,
    *,
    by: str,
    force: bool = False,
    request: str | None = None,
) -> BegunRefresh:
    """
    Record an operation that refreshes data of *app*; it waits for others of the app.

    Args:
        names: The domains to refresh. None: all.
        force: Refresh even sources that have not changed.
        request: As for ``run_now``: within a day, the same request is the same run.

    Raises:
        NotFoundError: No such small app or domain.
        ConflictError: The app has no domains; too many requests wait already; or an
            admin has given the name of the action to one of their own.
    """
    fetch_app(connection, app)
    known = {row.name for row in fetch_domains(connection, app)}
    for name in names or ():
        if name not in known:
            refuse_domain(app, name)
    if not known:
        msg = f"small app {app!r} has no domains to refresh. Apply some first."
        raise ConflictError(msg)
    asked = RefreshModel(domains=None if names is None else tuple(dict.fromkeys(names)))
    uid, revision = _ensure_action(connection, app, asked, by)
    now = read_clock(connection)
    operation_id = make_manual_id(uid, str(uuid4()))
    if request is not None:
        operation_id = find_requested_id(connection, uid, request, now)
    new = NewOperation(
        id=operation_id,
        action_uid=uid,
        action_revision=revision,
        app=app,
        trigger=Trigger.MANUAL,
        triggered_by=make_triggered_by(REFRESH_NAME),
        occurrence=now.replace(microsecond=0),
        queue=Queue.HEAVY,
        overlap=Overlap.QUEUE,
        details={"force": True} if force else None,
    )
    states = record(connection, [new])
    if not states:
        return BegunRefresh(operation_id)  # the same was asked for before
    if states[operation_id] is not OperationState.PENDING:
        msg = f"small app {app!r} has too many refreshes that wait. Wait for those."
        raise ConflictError(msg)  # which rolls back: a refusal leaves no row
    after = {
        "operation": operation_id,
        "domains": "all" if names is None else list(names),
        "force": force,
    }
    note_change(connection, "data", app, "refresh asked for", app=app, after=after)
    return BegunRefresh(operation_id)


def _ensure_action(
    connection: sa.Connection, app: str, asked: RefreshModel, by: str
) -> tuple[str, int]:
    """Return uid and revision of the action whose document asks for exactly that."""
    action = ScheduledActionModel(
        name=REFRESH_NAME,
        active=False,
        operations=OperationModel(refresh=asked),
        when=OnEventModel(on=_EVENT),
        overlap=Overlap.QUEUE,
    )
    hold_pause(connection, app)  # before the action: a pause locks in this order
    kept = scheduled_actions.c
    stored = connection.execute(
        sa.select(kept.uid, kept.revision, kept.document, kept.event)
        .where(kept.app == app, kept.name == REFRESH_NAME, kept.deleted_at.is_(None))
        .with_for_update()
    ).one_or_none()
    if stored is not None and stored.event != _EVENT:
        raise ConflictError(
            f"action {stored.uid!r} of small app {app!r} has the name that requests to"
            f" refresh need, {REFRESH_NAME!r}. Rename it."
        )
    if stored is not None and stored.document == action_document(action):
        return stored.uid, stored.revision
    posted = post_action(connection, app, action, Posting(replace=True, by=by))
    return posted.uid, posted.revision
