"""
Tasks of the users' own that the leader sends itself: no worker takes the operation.

What is to be sent is found as any message is (order.py). Here are the tasks that belong
to the messages, and the marks of what became of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from pydantic import ValidationError

from models.back_off import RETRY_DELAY, BackOff, read_back_off
from models.database.engine import (
    Identifier,
    UtcDateTime,
    db_now,
    json_rows,
    make_rows_json,
)
from models.database.tables import (
    operations,
    scheduled_action_revisions,
    scheduled_actions,
    small_apps,
    users,
)
from models.database.transaction import Transaction
from models.errors import StepError
from models.fields.strict_model import say
from models.operation import RUN_TASK
from models.operation_state import FINAL_STATES, OperationState, Reason, Trigger
from models.run_task import RunTaskModel
from operations.claiming.obstacles import can_nothing_stop, find_obstacle
from operations.foreign_tasks import ForeignTask, TaskOccasion, make_task, make_token
from operations.sending.order import Message
from operations.task_ends import TaskEnd, step_statement

#: Revisions that are remembered: what they ask for never changes.
_REMEMBERED = 20_000


class TaskRevision(NamedTuple):
    """Of a revision its name and when; and what it asks for, None: cannot be read."""

    document: dict[str, Any]
    asked: RunTaskModel | None
    error: str | None = None
    back_off: BackOff = BackOff()


@dataclass(frozen=True, slots=True)
class _Row:
    """An operation whose task is to be sent; see ``obstacles.Stoppable``."""

    app: str
    trigger: str
    user_id: str | None
    event_at: Any
    details: dict[str, Any]
    document: dict[str, Any]
    action_active: bool | None


class Ready(NamedTuple):
    """
    A task that is to be sent.

    Args:
        within: How long its end is waited for. None: not at all.
        left: Attempts after this one.
        back_off: How long until the next of them.
    """

    message: Message
    task: ForeignTask
    within: timedelta | None
    left: int
    back_off: BackOff = BackOff()


class TaskMark(NamedTuple):
    """
    What became of a message whose task is not a worker's.

    Args:
        state: Of the operation.
        spends: Whether an attempt counts.
        is_sent: Whether the broker has the task.
        delay: From the mark to the deadline, or to the next attempt. None: it is final.
        ago_s: Seconds since it happened.
        end: Of the step, if it is final and has begun.
    """

    message: Message
    state: OperationState
    reason: str | None = None
    error: str | None = None
    spends: bool = False
    is_sent: bool = False
    delay: timedelta | None = None
    ago_s: float = 0
    end: TaskEnd | None = None


def mark_sent_task(ready: Ready) -> TaskMark:
    """Return the mark of a task that its broker has."""
    message, task, within, *_ = ready
    if within is not None:
        reason = f"{Reason.TASK}: {task.name}"
        state = OperationState.PENDING
        return TaskMark(message, state, reason, spends=True, is_sent=True, delay=within)
    end = TaskEnd(message.id, message.attempt + 1, 0, result=task.describe())
    return TaskMark(message, end.state, spends=True, is_sent=True, end=end)


def mark_refused(ready: Ready, error: str) -> TaskMark:
    """Return the mark of a task that its broker refused: it is tried again."""
    if not ready.left:
        return mark_failed(ready.message, error)
    return TaskMark(
        ready.message,
        OperationState.PENDING,
        Reason.STEP_FAILED,
        f"{RUN_TASK}: {error}",
        spends=True,
        delay=ready.back_off.find_pause(RETRY_DELAY, left=ready.left),
    )


def mark_put_off(message: Message, error: str, delay: timedelta) -> TaskMark:
    """Return the mark of a task whose broker cannot take it now."""
    reason = f"{Reason.PLATFORM}: {error}"
    return TaskMark(message, OperationState.PENDING, reason, error, delay=delay)


def mark_failed(message: Message, error: str) -> TaskMark:
    """Return the mark of a task that cannot be sent, now or later."""
    end = TaskEnd(message.id, message.attempt + 1, 0, error)
    row = end.as_row()
    return TaskMark(
        *(message, end.state, str(row["reason"]), str(row["told"])),
        spends=True,
        end=end,
    )


def fetch_tasks(
    connection: sa.Connection,
    messages: Sequence[Message],
    *,
    secret: str,
    known: dict[tuple[str, int], TaskRevision],
) -> tuple[list[Ready], list[TaskMark]]:
    """
    Return the tasks of *messages*, and the marks of those that cannot be sent.

    Args:
        messages: Of the queue TASKS.
        secret: Of the installation.
        known: Revisions that were read before; more are added.
    """
    given = make_rows_json([{"id": m.id, "attempt": m.attempt} for m in messages])
    dialect = connection.dialect.name
    rows = connection.execute(_tasks_statement(dialect), {"given": given}).all()
    _learn(connection, rows, known)
    by_id = {message.id: message for message in messages}
    ready: list[Ready] = []
    marks: list[TaskMark] = []
    for row in rows:
        made = _make(connection, row, by_id[row.id], known, secret)
        if isinstance(made, Ready):
            ready.append(made)
        else:
            marks.append(made)
    return ready, marks


@cache
def _tasks_statement(dialect: str) -> sa.Executable:
    columns: dict[str, sa.types.TypeEngine[Any]] = {
        "id": Identifier,
        "attempt": sa.Integer(),
    }
    given = json_rows(dialect, columns, "given")
    kept, action = operations.c, scheduled_actions.c
    return (
        sa.select(
            *(kept.id, kept.action_uid, kept.action_revision, kept.app, kept.trigger),
            *(kept.occurrence, kept.user_id, kept.event_at, kept.details),
            (kept.attempts_allowed - kept.attempt - 1).label("left"),
            action.active.label("action_active"),
            small_apps.c.name.label("app_name"),
            users.c.email.label("email"),
            users.c.name.label("user_name"),
            users.c.locale.label("locale"),
            db_now().label("now"),
        )
        .select_from(given)
        .join(
            operations,
            # What was canceled or answered since it was found is not sent.
            sa.and_(
                kept.id == given.c.id,
                kept.attempt == given.c.attempt,
                kept.state == OperationState.PENDING,
            ),
        )
        .outerjoin(
            scheduled_actions,
            sa.and_(action.uid == kept.action_uid, action.deleted_at.is_(None)),
        )
        .outerjoin(small_apps, small_apps.c.uid == kept.app)
        .outerjoin(users, sa.and_(users.c.app == kept.app, users.c.id == kept.user_id))
    )


def _learn(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    known: dict[tuple[str, int], TaskRevision],
) -> None:
    """Read the revisions that are not known."""
    wanted = {(row.action_uid, row.action_revision) for row in rows} - known.keys()
    if not wanted:
        return
    if len(known) + len(wanted) > _REMEMBERED:
        known.clear()
        wanted = {(row.action_uid, row.action_revision) for row in rows}
    columns: dict[str, sa.types.TypeEngine[Any]] = {
        "uid": sa.Text(),
        "revision": sa.Integer(),
    }
    given = json_rows(connection.dialect.name, columns, "given")
    kept = scheduled_action_revisions.c
    found = connection.execute(
        sa.select(kept.uid, kept.revision, kept.document).join(
            given,
            sa.and_(kept.uid == given.c.uid, kept.revision == given.c.revision),
        ),
        {"given": make_rows_json([{"uid": u, "revision": r} for u, r in wanted])},
    )
    for uid, revision, document in found.all():
        known[uid, revision] = _read(document)


_GONE = TaskRevision({}, None, "its revision is gone")


def _read(document: dict[str, Any]) -> TaskRevision:
    try:
        asked = RunTaskModel.model_validate(document["operations"].get(RUN_TASK))
    except ValidationError as error:
        # It was read when it was posted, by another program.
        return TaskRevision(document, None, say(error))
    kept = {key: document[key] for key in ("name", "when")}
    return TaskRevision(kept, asked, back_off=read_back_off(document))


def _make(
    connection: sa.Connection,
    row: Any,
    message: Message,
    known: Mapping[tuple[str, int], TaskRevision],
    secret: str,
) -> Ready | TaskMark:
    revision = known.get((row.action_uid, row.action_revision), _GONE)
    document, asked = revision.document, revision.asked
    whose = _Row(
        *(row.app, row.trigger, row.user_id, row.event_at, row.details or {}),
        *(document, row.action_active),
    )
    if not can_nothing_stop(whose) and (found := find_obstacle(connection, whose)):
        return TaskMark(message, *found)
    if asked is None:
        return mark_failed(message, f"its action cannot be read: {revision.error}")
    when = document["when"]
    occasion = TaskOccasion(
        operation_id=row.id,
        app=row.app,
        action_uid=row.action_uid,
        action_name=document["name"],
        occurrence=None if row.trigger == Trigger.MANUAL else row.occurrence,
        scheduled_for=row.occurrence,
        trigger=row.trigger,
        user_id=row.user_id,
        event=when.get("on") or when.get("after"),
        event_at=row.event_at,
        attempt=message.attempt + 1,
        now=row.now,
    )
    looked_up = {
        "app.name": row.app_name,
        "user.email": row.email,
        "user.name": row.user_name or None,
        "user.locale": row.locale or None,
    }
    token = make_token(secret, row.id, occasion.attempt) if asked.wait else None
    try:
        task = make_task(occasion, asked, looked_up, token=token)
    except StepError as unfit:
        return mark_failed(message, str(unfit))
    within = asked.longest_wait if asked.wait else None
    return Ready(message, task, within, row.left, revision.back_off)


# -- marks ---------------------------------------------------------------------

_MARKS: dict[str, sa.types.TypeEngine[Any]] = {
    "id": Identifier,
    "attempt": sa.Integer(),
    "send_at": UtcDateTime,
    "state": sa.Text(),
    "reason": sa.Text(),
    "error": sa.Text(),
    "spends": sa.Integer(),
    "sent": sa.Integer(),
    "delay_s": sa.Float(),
    "ago_s": sa.Float(),
}


@cache
def _mark_statement(dialect: str) -> sa.Executable:
    marks = json_rows(dialect, _MARKS, "marks")
    kept, mark = operations.c, marks.c
    happened = db_now(-mark.ago_s)
    final = sa.or_(*(mark.state == state for state in sorted(FINAL_STATES)))
    return (
        sa.update(operations)
        .where(
            kept.id == mark.id,
            # Its answer may have come before, or somebody canceled it.
            kept.attempt == mark.attempt,
            kept.state == OperationState.PENDING,
            sa.or_(mark.send_at.is_(None), kept.send_at == mark.send_at),
        )
        .values(
            state=mark.state,
            reason=mark.reason,
            error=mark.error,
            attempt=kept.attempt + mark.spends,
            send_at=sa.case(
                (mark.delay_s.is_not(None), db_now(mark.delay_s - mark.ago_s)),
                else_=kept.send_at,
            ),
            sends=kept.sends + mark.sent,
            sent_at=sa.case((mark.sent == 1, happened), else_=kept.sent_at),
            started_at=sa.case(
                (mark.spends == 1, sa.func.coalesce(kept.started_at, happened)),
                else_=kept.started_at,
            ),
            finished_at=sa.case((final, happened)),
        )
    )


def write_marks(transaction: Transaction, marks: Sequence[TaskMark]) -> None:
    """
    Write what became of tasks.

    Args:
        marks: At least one. What is no longer as it was found stays as it is.
    """
    dialect = transaction.connection.dialect.name
    rows = [
        {
            "id": each.message.id,
            "attempt": each.message.attempt,
            "send_at": each.message.send_at,
            "state": each.state,
            "reason": each.reason,
            "error": each.error,
            "spends": int(each.spends),
            "sent": int(each.is_sent),
            "delay_s": None if each.delay is None else each.delay.total_seconds(),
            "ago_s": each.ago_s,
        }
        for each in marks
    ]
    transaction.ask(_mark_statement(dialect), {"marks": make_rows_json(rows)})
    ends = [each.end.as_row() for each in marks if each.end is not None]
    if ends:
        transaction.ask(step_statement(dialect), {"given": make_rows_json(ends)})
