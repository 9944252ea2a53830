"""What a run of an action would do, if somebody asked for it now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from actions.leader import fetch_leader
from actions.lookup import get_action, refuse_unknown_user
from actions.posting.revisions import refuse_action
from dispatch.manual_runs import choose_steps, refuse_user
from models.operation import order_steps
from models.operation_state import Overlap, Queue, StepState
from operations.list_operations import fetch_live_ids
from overview.recipients import count_inside, read_stored


@dataclass(frozen=True, slots=True)
class ForeseenStep:
    """A step of the run: pending if it would run, else skipped."""

    name: str
    state: StepState


@dataclass(frozen=True, slots=True)
class RecipientCount:
    """
    How many users would get the mails.

    ``on_event``: each only when an event of theirs triggers the action.
    """

    count: int
    on_event: bool


@dataclass(frozen=True, slots=True)
class RunPreview:
    """
    What a run would do; nothing is recorded.

    ``refused_by`` are the operations that keep it from being recorded; ``leads`` is
    whether a scheduler is there to send it.
    """

    action_uid: str
    queue: Queue
    user: str | None
    steps: tuple[ForeseenStep, ...]
    recipients: RecipientCount
    refused_by: tuple[UUID, ...]
    leads: bool

    @property
    def chosen(self) -> list[str]:
        """The steps that would run, in order."""
        return [each.name for each in self.steps if each.state is StepState.PENDING]

    @property
    def skipped(self) -> list[str]:
        """Those that would not."""
        return [each.name for each in self.steps if each.state is StepState.SKIPPED]


def preview_run(
    connection: sa.Connection,
    uid: str,
    *,
    user_id: str | None = None,
    steps: Sequence[str] | None = None,
    app: str | None = None,
) -> RunPreview:
    """
    Return what a run of an action would do now.

    Args:
        uid: Of an action that is not deleted.
        user_id: The user who would trigger it.
        steps: Of the action, those that would run. None: all.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError, UsageError, InvalidDocumentError: As ``run_now``; or the document
            of the action can no longer be read.
    """
    row = get_action(connection, uid, app=app)
    if row.deleted_at is not None:
        refuse_action(uid)
    if user_id is not None:
        refuse_user(row, user_id)
        refuse_unknown_user(connection, row.app, user_id)
    action = read_stored(uid, row.document)
    names = action.operations.step_names
    chosen = names if steps is None else choose_steps(row.document, steps)
    is_alone = row.overlap == Overlap.SKIP
    states = dict.fromkeys(names, StepState.SKIPPED)
    states |= dict.fromkeys(chosen, StepState.PENDING)
    # a run without a user is for all
    on_event, count = user_id is not None, count_inside(connection, row.app, action)
    return RunPreview(
        *(uid, Queue(row.queue), user_id),
        tuple(ForeseenStep(name, states[name]) for name in order_steps(states)),
        RecipientCount(count, on_event),
        fetch_live_ids(connection, uid, user_id) if is_alone else (),
        fetch_leader(connection) is not None,
    )
