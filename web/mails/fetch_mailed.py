"""
Who was to get the mails of an operation, and why the others were left out.

Who is in was decided when the step began, and is kept. Why others are not is read from
the action as it was then, and from the users as they are now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.lists import fetch_documents
from models.database.tables import deliveries, operation_steps, operations
from models.operation import MAILING_STEPS
from models.operation_state import MailState
from models.paging import Page, Part
from models.scheduled_action import ScheduledActionModel
from operations.adapters.app_users import fetch_judged
from operations.list_operations import make_unknown
from operations.mail.deliver import read_frozen
from operations.recipients import User
from overview.recipients import judge_recipient, read_stored


@dataclass(frozen=True, slots=True)
class MailedUser:
    """
    A user of the small app of an operation.

    Args:
        is_in: Whether they are a recipient.
        reason: Why, in words.
        state: Of the mail to them. None: there is none.
        error: What became of it, if that is known.
    """

    user: User
    is_in: bool
    reason: str
    state: MailState | None
    error: str | None


@dataclass(frozen=True, slots=True)
class MailedPart:
    """
    A part of the users of an app, and what is true of all recipients.

    Args:
        step: The step that mails. None: the operation has no such step.
        count: How many recipients there are. None: the step has not begun.
        warnings: A sentence for each name of the action that no user or group has.
    """

    part: Part[MailedUser]
    step: str | None
    count: int | None
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Mailing:
    """
    One step that mails.

    Args:
        frozen: The ids of its recipients. None: it has not begun.
        action: As it was when the operation was recorded. None: nobody knows any more.
    """

    operation: sa.Row[Any]
    step: str
    frozen: frozenset[str] | None
    warnings: Sequence[str]
    action: ScheduledActionModel | None


def fetch_mailed_part(
    connection: sa.Connection,
    operation_id: UUID,
    page: Page,
    *,
    inside: bool | None = None,
    step: str | None = None,
    app: str | None = None,
) -> MailedPart:
    """
    Return a part of the users of the app of an operation, by id.

    Args:
        page: Its position is the id of a user.
        inside: Only recipients (True), or those who were left out (False). None: all.
        step: Name of the step. None: the first that mails.
        app: Uid of the small app that it must belong to. None: any.

    Raises:
        NotFoundError: There is no such operation.
        InvalidDocumentError: The document of its action can no longer be read.
    """
    mailing = _find_mailing(connection, operation_id, step, app)
    if mailing is None:
        return MailedPart(Part((), None), None, None, ())
    now = read_clock(connection)
    part = fetch_judged(
        connection,
        mailing.operation.app,
        page,
        lambda user: (user, *_judge(mailing, user, now)),
        None if inside is None else lambda judged: judged[1] is inside,
    )
    marks = _fetch_marks(connection, mailing, [user.id for user, _, _ in part.entries])
    entries = [
        MailedUser(user, is_in, reason, *marks.get(user.id, (None, None)))
        for user, is_in, reason in part.entries
    ]
    count = None if mailing.frozen is None else len(mailing.frozen)
    return MailedPart(
        Part(entries, part.following), mailing.step, count, mailing.warnings
    )


def _find_mailing(
    connection: sa.Connection, operation_id: UUID, step: str | None, app: str | None
) -> _Mailing | None:
    """Return the step that is meant; None: the operation has no such step."""
    row = connection.execute(
        sa.select(operations).where(operations.c.id == operation_id)
    ).one_or_none()
    if row is None or app not in {None, row.app}:
        raise make_unknown(operation_id)
    key = row.action_uid, row.action_revision
    document = fetch_documents(connection, [key]).get(key)
    action = None if document is None else read_stored(row.action_uid, document)
    steps = operation_steps.c
    begun = connection.execute(
        sa.select(steps.name, steps.memo)
        .where(steps.operation_id == operation_id)
        .order_by(steps.position)
    ).all()
    memos = {each.name: each.memo or {} for each in begun}
    if not memos and action is not None:
        asked = action.operations.model_dump(exclude_none=True)
        memos = {name: {} for name in MAILING_STEPS if asked.get(name)}
    wanted = MAILING_STEPS if step is None else {step} & MAILING_STEPS
    name = next((each for each in sorted(memos) if each in wanted), None)
    if name is None:
        return None
    frozen = read_frozen(memos[name])
    if frozen is None:
        return _Mailing(row, name, None, (), action)
    ids, warnings = frozen
    return _Mailing(row, name, frozenset(ids), warnings, action)


def _judge(mailing: _Mailing, user: User, now: datetime) -> tuple[bool, str]:
    """Return whether *user* is a recipient, and why."""
    frozen, action, whose = mailing.frozen, mailing.action, mailing.operation.user_id
    if frozen is not None and user.id in frozen:
        return True, "a recipient when the step began"
    if whose is not None and whose != user.id:
        return False, f"the run is for user {whose!r} alone"
    if action is None:
        return False, "not among the recipients when the step began"
    found = judge_recipient(action, user, now=now)
    if frozen is None or not found.is_in:
        return found.is_in, found.reason
    return False, f"only since the step began: {found.reason}"


def _fetch_marks(
    connection: sa.Connection, mailing: _Mailing, ids: Collection[str]
) -> dict[str, tuple[MailState, str | None]]:
    """Return the state of the mail to each of *ids* who has one, and its error."""
    marks = deliveries.c
    rows = connection.execute(
        sa.select(marks.recipient, marks.state, marks.error).where(
            marks.operation_id == mailing.operation.id,
            marks.step == mailing.step,
            marks.recipient.in_(ids),
        )
    )
    return {row.recipient: (MailState(row.state), row.error) for row in rows}
