"""
Tasks of the users' own that the leader sends itself: no worker takes the operation.

What is to be sent is found as any message is (order.py). Here are the tasks that belong
to the messages, and what is to be marked of what became of them (task_marks.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from pydantic import ValidationError

from models.back_off import RETRY_DELAY, BackOff, read_back_off
from models.database.engine import Identifier, db_now, json_rows, make_rows_json
from models.database.lists import fetch_documents
from models.database.tables import (
    DUE_ACTIONS,
    operations,
    scheduled_actions,
    small_apps,
    users,
)
from models.errors import StepError
from models.fields.strict_model import say
from models.operation import RUN_TASK
from models.operation_state import OperationState, Queue, Reason, Trigger
from models.run_task import RunTaskModel
from operations import foreign_tasks
from operations.claiming.claimed import Stoppable, can_nothing_stop, find_obstacle
from operations.sending.order import Message
from operations.task_marks import TaskMark, make_end

#: Revisions that are remembered: what they ask for never changes.
_REMEMBERED = 20_000

#: How long before it is due a revision is read, and how many of them at a time.
AHEAD = timedelta(minutes=1)
_AT_ONCE = 500

#: How long what a broker did not take is put off.
PUT_OFF = timedelta(seconds=10)


class TaskRevision(NamedTuple):
    """
    What is known of a revision.

    Args:
        document: Its name and when.
        asked: What it asks for. None: that cannot be read.
        asks_nobody: Whether the task can be made without a look into the directory.
        outline: What its tasks have in common.
        within: How long the end of one is waited for. None: not at all.
    """

    document: dict[str, Any]
    asked: RunTaskModel | None
    error: str | None = None
    back_off: BackOff = BackOff()
    asks_nobody: bool = False
    outline: foreign_tasks.ForeignTask | None = None
    within: timedelta | None = None


_GONE = TaskRevision({}, None, "its revision is gone")


@dataclass(slots=True)
class TaskRevisions:
    """Those that were read; a tick has no time to read thousands."""

    _known: dict[tuple[str, int], TaskRevision] = field(default_factory=dict)

    def get(self, uid: str, revision: int) -> TaskRevision:
        """Return what ``learn`` has read."""
        return self._known[uid, revision]

    def learn_ahead(self, connection: sa.Connection) -> int:
        """Read some of what is soon due; return how many, 0: all of it is known."""
        action = scheduled_actions.c
        due = connection.execute(
            sa.select(action.uid, action.revision)
            .where(
                DUE_ACTIONS.of("scheduled_actions"),
                action.next_due_at <= db_now(AHEAD),
                action.queue == Queue.TASKS,
            )
            .order_by(action.next_due_at)
            .limit(_REMEMBERED // 2)
        )
        wanted = [(uid, revision) for uid, revision in due]
        new = [each for each in wanted if each not in self._known][:_AT_ONCE]
        self.learn(connection, new)
        return len(new)

    def learn(
        self, connection: sa.Connection, wanted: Collection[tuple[str, int]]
    ) -> None:
        """Read those of *wanted* that are not known."""
        new = [each for each in wanted if each not in self._known]
        if not new:
            return
        if len(self._known) + len(new) > _REMEMBERED:
            self._known.clear()
            new = list(wanted)
        found = fetch_documents(connection, new)
        # What is gone is known to be, or it would be asked for again and again.
        self._known.update(dict.fromkeys(new, _GONE))
        self._known.update((key, _read(document)) for key, document in found.items())


def _read(document: dict[str, Any]) -> TaskRevision:
    try:
        asked = RunTaskModel.model_validate(document["operations"].get(RUN_TASK))
    except ValidationError as error:
        # It was read when it was posted, by another program.
        return TaskRevision(document, None, say(error))
    # Kept with what it gives as JSON, on which a tick would spend a tenth of its time.
    asks_nobody = asked.is_constant or asked.placeholders.isdisjoint(
        foreign_tasks.LOOKED_UP
    )
    kept = {key: document[key] for key in ("name", "when")}
    return TaskRevision(
        kept,
        asked,
        back_off=read_back_off(document),
        asks_nobody=asks_nobody,
        outline=foreign_tasks.outline_task(asked),
        within=asked.longest_wait if asked.wait else None,
    )


class Ready(NamedTuple):
    """
    A task that is to be sent.

    Args:
        within: How long its end is waited for. None: not at all.
        left: Attempts after this one.
        back_off: How long until the next of them.
        revision: Uid and revision of the action.
    """

    message: Message
    task: foreign_tasks.ForeignTask
    within: timedelta | None
    left: int
    back_off: BackOff = BackOff()
    revision: tuple[str, int] = ("", 0)


def mark_sent_task(ready: Ready) -> TaskMark:
    """Return the mark of a task that its broker has."""
    message, task, within, *_ = ready
    id_, attempt, send_at = message.id, message.attempt + 1, message.send_at
    if within is None:
        end = make_end(id_, attempt, result=task.describe())
        return end._replace(sent=1, send_at=send_at)
    return TaskMark(
        *(id_, attempt, OperationState.PENDING, f"{Reason.TASK}: {task.name}"),
        spends=1,
        sent=1,
        send_at=send_at,
        delay_s=within.total_seconds(),
    )


def mark_refused(ready: Ready, error: str) -> TaskMark:
    """Return the mark of a task that its broker refused: it is tried again."""
    message = ready.message
    if not ready.left:
        return mark_failed(message, error)
    pause = ready.back_off.find_pause(RETRY_DELAY, left=ready.left)
    return TaskMark(
        *(message.id, message.attempt + 1, OperationState.PENDING),
        *(Reason.STEP_FAILED, f"{RUN_TASK}: {error}"),
        spends=1,
        send_at=message.send_at,
        delay_s=pause.total_seconds(),
    )


def mark_put_off(message: Message, error: str) -> TaskMark:
    """Return the mark of a task whose broker cannot take it now."""
    return TaskMark(
        *(message.id, message.attempt, OperationState.PENDING),
        *(f"{Reason.PLATFORM}: {error}", error),
        send_at=message.send_at,
        delay_s=PUT_OFF.total_seconds(),
    )


def mark_failed(message: Message, error: str) -> TaskMark:
    """Return the mark of a task that cannot be sent, now or later."""
    end = make_end(message.id, message.attempt + 1, error)
    return end._replace(send_at=message.send_at)


def fetch_tasks(
    connection: sa.Connection,
    messages: Sequence[Message],
    *,
    secret: str,
    revisions: TaskRevisions,
) -> tuple[list[Ready], list[tuple[Message, TaskMark]]]:
    """
    Return the tasks of *messages*, and the marks of those that cannot be sent.

    Args:
        messages: Of the queue TASKS.
        secret: Of the installation.
        revisions: Those that were read before; more are added.
    """
    rows = {row[0].int: row for row in _recall(connection, messages, revisions)}
    unknown = [message for message in messages if message.id.int not in rows]
    if unknown:
        rows |= {row[0].int: row for row in _fetch_rows(connection, unknown)}
        revisions.learn(connection, {(row[1], row[2]) for row in rows.values()})
    ready: list[Ready] = []
    marks: list[tuple[Message, TaskMark]] = []
    for message in messages:
        row = rows.get(message.id.int)
        if row is None:
            continue  # it was canceled or answered since it was found
        revision = revisions.get(row[1], row[2])
        made = _make(connection, row, message, revision, secret)
        if isinstance(made, Ready):
            ready.append(made)
        else:
            marks.append((message, made))
    return ready, marks


def _recall(
    connection: sa.Connection, messages: Sequence[Message], revisions: TaskRevisions
) -> list[Sequence[Any]]:
    """
    Return the rows of what has just been recorded, as ``_tasks_statement`` has them.

    Of a scheduled run all is known by then, unless its task is told something about its
    app. Nothing can have changed since: the tick had locked the action until its
    commit, and only a look after that has found the message.
    """
    known = [
        (message, row)
        for message in messages
        if (row := message.recorded) is not None and row.trigger is Trigger.SCHEDULE
    ]
    wanted = {(row.action_uid, row.action_revision) for _message, row in known}
    revisions.learn(connection, wanted)
    return [
        (
            *(message.id, row.action_uid, row.action_revision, row.app, row.trigger),
            *(row.occurrence, None, None, None),
            *(row.attempts_allowed - message.attempt - 1, True),
            *(None, None, None, None, message.send_at),
        )
        for message, row in known
        if revisions.get(row.action_uid, row.action_revision).asks_nobody
    ]


def _fetch_rows(
    connection: sa.Connection, messages: Sequence[Message]
) -> Sequence[Sequence[Any]]:
    given = make_rows_json([{"id": m.id, "attempt": m.attempt} for m in messages])
    statement = _tasks_statement(connection.dialect.name)
    return connection.execute(statement, {"given": given}).all()


@cache
def _tasks_statement(dialect: str) -> sa.Executable:
    given = json_rows(dialect, {"id": Identifier, "attempt": sa.Integer()}, "given")
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


def _make(
    connection: sa.Connection,
    row: Any,
    message: Message,
    revision: TaskRevision,
    secret: str,
) -> Ready | TaskMark:
    # By position, which is fast: this runs for each operation.
    id_, action_uid, number, app, trigger, occurrence, user_id, event_at = row[:8]
    details, left, active, app_name, email, user_name, locale, now = row[8:]
    document, asked = revision.document, revision.asked
    whose = Stoppable(app, trigger, user_id, event_at, details or {}, document, active)
    if not can_nothing_stop(whose) and (found := find_obstacle(connection, whose)):
        state, reason = found
        return TaskMark(id_, message.attempt, state, reason, send_at=message.send_at)
    if asked is None:
        return mark_failed(message, f"its action cannot be read: {revision.error}")
    when = document["when"]
    occasion = foreign_tasks.TaskOccasion(
        operation_id=id_,
        app=app,
        action_uid=action_uid,
        action_name=document["name"],
        occurrence=None if trigger == Trigger.MANUAL else occurrence,
        scheduled_for=occurrence,
        trigger=trigger,
        user_id=user_id,
        event=when.get("on") or when.get("after"),
        event_at=event_at,
        attempt=message.attempt + 1,
        now=now,
    )
    names = app_name, email, user_name or None, locale or None
    looked_up = dict(zip(foreign_tasks.LOOKED_UP, names, strict=True))
    token = (
        foreign_tasks.make_token(secret, id_, occasion.attempt) if asked.wait else None
    )
    try:
        task = foreign_tasks.make_task(
            occasion, asked, looked_up, token=token, outline=revision.outline
        )
    except StepError as unfit:
        return mark_failed(message, str(unfit))
    posted = action_uid, number
    return Ready(message, task, revision.within, left, revision.back_off, posted)
