"""
Run an action now, or refresh data: record the operation; the leader sends it.

A refresh needs an action, so each small app gets one for this, the first time. It is
listed as any other; it is inactive, so nothing but such a request runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from actions.lookup import fetch_app, find_action, refuse_unknown_user
from actions.pausing.pause_state import hold_pause
from actions.posting.doubts import find_silent_steps
from actions.posting.post import Posting, post_action
from actions.posting.revisions import require_action
from actions.small_apps.export import fetch_domains
from models.database.engine import Author, read_clock, writing
from models.database.journal import note_change
from models.database.tables import operations, scheduled_actions
from models.decision import NewOperation, make_triggered_by
from models.door.documents import action_document
from models.errors import ConflictError, InvalidDocumentError, Problem, UsageError
from models.fields.strict_model import show
from models.occurrence import make_manual_id
from models.operation import OperationModel, RefreshModel, order_steps
from models.operation_state import OperationState, Overlap, Queue, Trigger
from models.requests.actions import RunModel
from models.scheduled_action import ScheduledActionModel
from models.when import OnEventModel
from operations.claiming.claimed import STEPS_KEY
from operations.list_operations import fetch_operation
from operations.publish_now import refuse_domain
from operations.record import make_operation, record

#: How long a repeated request is the same run; as long as its answer is repeated.
SAME_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Runnable:
    """
    An action that somebody asks to run.

    Args:
        is_for_all: Whether this run is for all recipients, although the action usually
            runs for the one user who triggers it: a reason to ask for confirmation.
        silent: Its steps whose mails nobody gets.
    """

    uid: str
    name: str
    is_for_all: bool
    silent: tuple[Problem, ...] = ()


def find_runnable(
    connection: sa.Connection, given: str, *, app: str | None, user_id: str | None
) -> Runnable:
    """
    Return the action that somebody asks to run, as if *user_id* triggered it.

    Args:
        given: Uid or name.
        app: Uid of the small app that has the action. None: any.
        user_id: The user who triggers the run. None: nobody does.

    Raises:
        NotFoundError: There is no such action, or its small app has no such user.
        ConflictError: Several small apps have an action of that name.
    """
    row = find_action(connection, given, app=app)
    if user_id is not None:
        refuse_unknown_user(connection, row.app, user_id)
    is_for_all = row.event is not None and user_id is None
    silent = tuple(find_silent_steps(row.document))
    return Runnable(row.uid, row.name, is_for_all, silent)


def run_now(  # noqa: PLR0913 - all but two have a default
    engine: sa.Engine,
    action_uid: str,
    asked: RunModel | None = None,
    *,
    key: str | None = None,
    request: str | None = None,
    app: str | None = None,
    author: Author | None = None,
) -> UUID:
    """
    Record a manual run of an action; its schedule does not move.

    Args:
        engine: The caller's engine.
        action_uid: Paused and inactive actions run too: somebody asked for it.
        asked: With which steps, for whom, and why. None: all steps, for all.
        key: Idempotency key: the same key is the same run. None: a new run.
        request: Digest of a request that may be repeated: within SAME_FOR, the same
            request is the same run, even if it got no answer. Not beside *key*.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.
        author: Who asks, for the record of changes.

    Returns:
        Id of the operation.

    Raises:
        NotFoundError: There is no such action, or it is deleted; or its small app has
            no such user.
        UsageError: A user is given, but the action is driven by time: its runs are
            always for all its recipients.
        InvalidDocumentError: One of the steps is not a step of the action.
        ConflictError: A run of the action is under way, and its ``overlap`` is skip.
            (Nothing is recorded then.)
    """
    asked = asked or RunModel()
    with writing(engine, author=author) as connection:
        action = require_action(connection, action_uid, app=app, lock=True)
        if asked.user is not None:
            refuse_user(action, asked.user)
            refuse_unknown_user(connection, action.app, asked.user)
        details: dict[str, object] = {}
        if asked.steps is not None:
            details[STEPS_KEY] = list(choose_steps(action.document, asked.steps))
        if asked.force:
            details["force"] = True
        if asked.note is not None:
            details["note"] = asked.note
        now = read_clock(connection)
        operation_id = make_manual_id(action_uid, key or str(uuid4()))
        if request is not None:
            operation_id = find_requested_id(connection, action_uid, request, now)
        new = make_operation(
            action,
            id=operation_id,
            trigger=Trigger.MANUAL,
            triggered_by=make_triggered_by(action.name),
            occurrence=now,
            user_id=asked.user,
            details=details or None,
        )
        new = new._replace(occurrence=now.replace(microsecond=0))
        if not record(connection, [new]):
            return operation_id  # the same was asked for before
        row = fetch_operation(connection, operation_id)
        assert row is not None  # we have just recorded it
        if row.state != OperationState.PENDING:
            msg = f"action {action_uid!r} is already running ({row.reason})"
            raise ConflictError(msg)  # which rolls back: a refusal leaves no row
        after = {"operation": str(operation_id), "user": asked.user, **details}
        what = "action", action_uid, "run"
        note_change(connection, *what, app=action.app, after=after, note=asked.note)
    return operation_id


def find_requested_id(
    connection: sa.Connection, action_uid: str, request: str, now: datetime
) -> UUID:
    """
    Return the id of the run for a request: that of its first run within SAME_FOR.

    An id cannot forget, but a client may use an Idempotency-Key again another day. So
    the day is part of the id, and yesterday's run counts while it is young enough.

    Args:
        connection: Has locked the action.
        action_uid: Of that action.
        request: Digest of who asks, their Idempotency-Key, and the body.
        now: By the clock of the database.
    """
    before, today = (
        make_manual_id(action_uid, f"{request} | {day.date()}")
        for day in (now - SAME_FOR, now)
    )
    is_young = sa.select(operations.c.id).where(
        operations.c.id == before, operations.c.recorded_at > now - SAME_FOR
    )
    return today if connection.execute(is_young).first() is None else before


def refuse_user(action: sa.Row[Any], user_id: str) -> None:
    """
    Refuse a user who would trigger an action that no user triggers.

    Raises:
        UsageError: It is driven by time.
    """
    if action.event is None:
        raise UsageError(
            f"action {action.uid!r} is not driven by an event, so no user triggers it:"
            f" run it without the user {user_id!r}"
        )


def choose_steps(document: Mapping[str, Any], steps: Sequence[str]) -> tuple[str, ...]:
    """
    Return *steps* in the order in which they run, each once.

    Args:
        document: Of the action.
        steps: Names.

    Raises:
        InvalidDocumentError: One of them is not a step of the action. Pointers begin
            with ``/steps``.
    """
    asked = document["operations"]
    known = order_steps(asked)
    problems = [
        Problem(
            f"/steps/{index}",
            f"{show(name)} is not a step of this action.",
            f"It has: {', '.join(known)}.",
        )
        for index, name in enumerate(steps)
        if name not in known
    ]
    if problems:
        raise InvalidDocumentError(tuple(problems))
    return tuple(name for name in known if name in steps)


#: The name of the action that refreshes on request.
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
