"""Run an action now: record the operation; the leader sends it within a second."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

import sqlalchemy as sa

from actions.lookup import find_action, refuse_unknown_user
from actions.posting.revisions import lock_action
from models.database.engine import read_clock, writing
from models.decision import NewOperation, make_triggered_by
from models.errors import ConflictError, UsageError
from models.occurrence import make_manual_id
from models.operation_state import OperationState, Overlap, Queue, Trigger
from operations.list_operations import fetch_operation
from operations.record import record


@dataclass(frozen=True, slots=True)
class Runnable:
    """
    An action that somebody asks to run.

    Args:
        is_for_all: Whether this run is for all recipients, although the action usually
            runs for the one user who triggers it: a reason to ask for confirmation.
    """

    uid: str
    name: str
    is_for_all: bool


def find_runnable(
    connection: sa.Connection, given: str, *, app: str | None, user_id: str | None
) -> Runnable:
    """
    Return the action that somebody asks to run, as if *user_id* triggered it.

    Args:
        connection: Any.

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
    return Runnable(row.uid, row.name, is_for_all)


def run_now(
    engine: sa.Engine,
    action_uid: str,
    *,
    key: str | None = None,
    user_id: str | None = None,
    force: bool = False,
) -> UUID:
    """
    Record a manual run of an action; its schedule does not move.

    Args:
        engine: The caller's engine.

        action_uid: Paused and inactive actions run too: somebody asked for it.

        key: Idempotency key: the same key is the same run. None: a new run.

        user_id: The user who triggers the run; for event-driven actions only.

        force: Refresh even sources that have not changed.

    Returns:
        Id of the operation.

    Raises:
        NotFoundError: There is no such action, or it is deleted.

        UsageError: *user_id* is given, but the action is driven by time: its runs are
            always for all its recipients.

        ConflictError: A run of the action is under way, and its ``overlap`` is skip.
            (Nothing is recorded then.)
    """
    with writing(engine) as connection:
        action = lock_action(connection, action_uid)
        if user_id is not None and action.event is None:
            msg = (
                f"action {action_uid!r} is not driven by an event, so no user triggers"
                f" it: run it without the user {user_id!r}"
            )
            raise UsageError(msg)
        operation_id = make_manual_id(action_uid, key or str(uuid4()))
        new = NewOperation(
            id=operation_id,
            action_uid=action_uid,
            action_revision=action.revision,
            app=action.app,
            trigger=Trigger.MANUAL,
            triggered_by=make_triggered_by(action.name),
            occurrence=read_clock(connection).replace(microsecond=0),
            queue=Queue(action.queue),
            overlap=Overlap(action.overlap),
            user_id=user_id,
            details={"force": True} if force else None,
        )
        if not record(connection, [new]):
            return operation_id  # the same key was used before
        row = fetch_operation(connection, operation_id)
        assert row is not None  # we have just recorded it
        if row.state != OperationState.PENDING:
            msg = f"action {action_uid!r} is already running ({row.reason})"
            raise ConflictError(msg)  # which rolls back: a refusal leaves no row
    return operation_id
