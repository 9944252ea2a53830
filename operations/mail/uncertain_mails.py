"""
Mails whose fate is unknown, and what an operator decides about them.

SMTP has no exactly-once delivery. If a worker dies between handing over a mail and
marking it, the mail is ``uncertain``, and Minutehand never sends it again by itself. An
operator who knows more confirms that it arrived, or has it sent again, under the same
operation, the same Message-ID and the same marks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import db_now, reading, writing
from models.database.tables import UNCERTAIN, deliveries, operation_steps, operations
from models.errors import ConflictError, NotFoundError
from models.operation_state import OperationState, StepState
from operations.cancel_and_retry import REOPENED, RETRIED_STATES, is_beside_live
from operations.claiming.obstacles import RETURN_KEY
from operations.mail.deliver import RESENT_KEY
from operations.ports import DeliveryState

#: The states of operations that may have left uncertain mails which can be sent again.
RESENT_STATES = frozenset({*RETRIED_STATES, OperationState.SUCCEEDED})


@dataclass(frozen=True, slots=True)
class MailSelection:
    """
    Which mails are meant; None, or an empty set, matches everything.

    Args:
        since: Compared with the last change of the mark, inclusive.

        until: Compared with the last change of the mark, exclusive.
    """

    app: str | None = None
    action_uid: str | None = None
    operation_id: UUID | None = None
    recipients: frozenset[str] = frozenset()
    state: DeliveryState | None = DeliveryState.UNCERTAIN
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it matches every uncertain mail."""
        return self == MailSelection()


@dataclass(frozen=True, slots=True)
class Mail:
    """
    A mail to one recipient, as its delivery mark shows it; instants are aware UTC.

    Args:
        step: The step of the operation that sends it.

        recipient: Id of a user.

        error: The answer of the server, or what is unknown.

        updated_at: When the mark last changed.

        resolved_by: Who decided about the mail when it was uncertain. None: nobody.

        occurrence: The occurrence of the operation.
    """

    operation_id: UUID
    app: str
    action_uid: str
    step: str
    recipient: str
    state: DeliveryState
    error: str | None
    updated_at: datetime
    resolved_by: str | None
    resolved_at: datetime | None
    occurrence: datetime

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            "operation_id": self.operation_id,
            "app": self.app,
            "action_uid": self.action_uid,
            "step": self.step,
            "recipient": self.recipient,
            "state": self.state.value,
            "error": self.error,
            "updated_at": self.updated_at,
            "resolved_by": self.resolved_by,
            "resolved_at": self.resolved_at,
            "occurrence": self.occurrence,
        }


@dataclass(slots=True)
class Resolved:
    """How many mails were resolved, and why others were not, by operation."""

    done: int = 0
    refused: dict[UUID, str] = field(default_factory=dict)


def make_resolved_json(
    matched: int, resolved: Resolved, *, dry_run: bool
) -> dict[str, object]:
    """Return the documented object for resolving *matched* mails."""
    refused = {str(id_): text for id_, text in resolved.refused.items()}
    return {
        "matched": matched,
        "changed": resolved.done,
        "refused": refused,
        "dry_run": dry_run,
    }


def fetch_mails(
    connection: sa.Connection, wanted: MailSelection, *, limit: int
) -> list[Mail]:
    """Return mails, the latest change first."""
    marks, columns = deliveries.c, operations.c
    rows = connection.execute(
        sa.select(
            marks.operation_id,
            columns.app,
            columns.action_uid,
            marks.step,
            marks.recipient,
            marks.state,
            marks.error,
            marks.updated_at,
            marks.resolved_by,
            marks.resolved_at,
            columns.occurrence,
        )
        .join_from(deliveries, operations)
        .where(*_match(wanted))
        .order_by(marks.updated_at.desc(), marks.recipient)
        .limit(limit)
    )
    return [
        Mail(**{**row._mapping, "state": DeliveryState(row.state)})  # noqa: SLF001 - SQLAlchemy's public name for it
        for row in rows
    ]


def count_mails(connection: sa.Connection, wanted: MailSelection) -> dict[str, int]:
    """Return how many mails are meant, by state."""
    rows = connection.execute(
        sa.select(deliveries.c.state, sa.func.count())
        .join_from(deliveries, operations)
        .where(*_match(wanted))
        .group_by(deliveries.c.state)
    )
    return {row[0]: row[1] for row in rows}


def _match(wanted: MailSelection) -> list[sa.ColumnElement[bool]]:
    columns = deliveries.c
    found: list[sa.ColumnElement[bool]] = []
    if wanted.state is DeliveryState.UNCERTAIN:
        found.append(UNCERTAIN.of("deliveries"))  # type: ignore[arg-type]
    elif wanted.state is not None:
        found.append(columns.state == wanted.state)
    for column, value in (
        (operations.c.app, wanted.app),
        (operations.c.action_uid, wanted.action_uid),
        (columns.operation_id, wanted.operation_id),
    ):
        if value is not None:
            found.append(column == value)
    if wanted.recipients:
        found.append(columns.recipient.in_(sorted(wanted.recipients)))
    if wanted.since is not None:
        found.append(columns.updated_at >= wanted.since)
    if wanted.until is not None:
        found.append(columns.updated_at < wanted.until)
    return found


def resolve_mails(
    engine: sa.Engine, wanted: MailSelection, *, resend: bool, by: str | None
) -> Resolved:
    """
    Resolve the uncertain mails of *wanted*, one operation at a time.

    Args:
        engine: Each operation is a transaction of its own.

        wanted: Has the state UNCERTAIN.

        resend: Whether to send them again; otherwise they are marked as sent.

        by: Who decided it.
    """
    with reading(engine) as connection:
        ids = connection.execute(
            sa.select(deliveries.c.operation_id, operations.c.recorded_at)
            .join_from(deliveries, operations)
            .where(*_match(wanted))
            .distinct()
            .order_by(operations.c.recorded_at)
        ).all()
    resolved = Resolved()
    decide = resend_mails if resend else confirm_mails
    for row in ids:
        try:
            with writing(engine) as connection:
                resolved.done += decide(
                    connection, row.operation_id, recipients=wanted.recipients, by=by
                )
        except (ConflictError, NotFoundError) as error:
            resolved.refused[row.operation_id] = str(error)
    return resolved


def confirm_mails(
    connection: sa.Connection,
    operation_id: UUID,
    *,
    recipients: Collection[str] = (),
    by: str | None,
) -> int:
    """
    Mark uncertain mails of an operation as ``sent``, because somebody confirms them.

    Args:
        connection: In a transaction of its own.

        operation_id: An operation in any state; its worker may be sending other mails.

        recipients: Ids of users; empty: all whose mail is uncertain.

        by: Who confirms it.

    Returns:
        How many mails were marked.

    Raises:
        NotFoundError: There is no such operation, or the mail to one of *recipients* is
            not uncertain.
    """
    _lock(connection, operation_id)
    _find_uncertain(connection, operation_id, recipients)
    return _settle(connection, operation_id, recipients, DeliveryState.SENT, by)


def resend_mails(
    connection: sa.Connection,
    operation_id: UUID,
    *,
    recipients: Collection[str] = (),
    by: str | None,
) -> int:
    """
    Send uncertain mails of an operation again, without repeating anything else of it.

    The row is reopened. Only the steps with such mails run, and only for these
    recipients; then the operation returns to its former state.

    Args:
        connection: In a transaction of its own.

        operation_id: A final operation.

        recipients: Ids of users; empty: all whose mail is uncertain.

        by: Who asks for it.

    Returns:
        How many mails will be sent again.

    Raises:
        NotFoundError: As for ``confirm_mails``.

        ConflictError: The operation is not final, its worker has not stopped, or its
            ``overlap`` is skip and another run of its action is live.
    """
    row = _lock(connection, operation_id)
    if row.state not in RESENT_STATES or row.claim_token is not None:
        msg = (
            f"the mails of operation {operation_id} cannot be sent again now: it is"
            f" {row.state}, or its worker has not stopped"
        )
        raise ConflictError(msg)
    found = _find_uncertain(connection, operation_id, recipients)
    count = _settle(connection, operation_id, recipients, DeliveryState.FAILED, by)
    for step, users in found.items():
        _reopen_step(connection, operation_id, step, users)
    details = dict(row.details or {})
    # If a former resend failed, keep the state from before the first resend.
    details.setdefault(
        RETURN_KEY, {"state": row.state, "reason": row.reason, "error": row.error}
    )
    reopened = connection.execute(
        sa.update(operations)
        .where(operations.c.id == operation_id, ~is_beside_live())
        .values(**REOPENED, details=details)
    ).rowcount
    if not reopened:
        msg = (
            f"the mails of operation {operation_id} cannot be sent again now: another"
            " run of its action is under way, and the overlap of the action is skip."
            " Wait for that run"
        )
        raise ConflictError(msg)
    return count


def _lock(connection: sa.Connection, operation_id: UUID) -> sa.Row[Any]:
    """Lock an operation: until the commit, its worker cannot change any mark."""
    row = connection.execute(
        sa.select(operations).where(operations.c.id == operation_id).with_for_update()
    ).one_or_none()
    if row is None:
        msg = f"there is no operation {operation_id}"
        raise NotFoundError(msg)
    return row


def _find_uncertain(
    connection: sa.Connection, operation_id: UUID, recipients: Collection[str]
) -> dict[str, list[str]]:
    """Return the recipients of uncertain mails by step."""
    wanted = MailSelection(operation_id=operation_id, recipients=frozenset(recipients))
    rows = connection.execute(
        sa.select(deliveries.c.step, deliveries.c.recipient)
        .join_from(deliveries, operations)
        .where(*_match(wanted))
        .order_by(deliveries.c.recipient)
    ).all()
    missing = set(recipients) - {row.recipient for row in rows}
    if missing or not rows:
        whom = f" to {', '.join(map(repr, sorted(missing)))}" if missing else ""
        msg = f"operation {operation_id} has no uncertain mail{whom}"
        raise NotFoundError(msg)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for step, recipient in rows:
        found[step].append(recipient)
    return found


def _settle(
    connection: sa.Connection,
    operation_id: UUID,
    recipients: Collection[str],
    state: DeliveryState,
    by: str | None,
) -> int:
    query = (
        sa.update(deliveries)
        .where(
            deliveries.c.operation_id == operation_id,
            deliveries.c.state == DeliveryState.UNCERTAIN,
        )
        .values(
            state=state,
            resolved_by=by,
            resolved_at=db_now(),
            updated_at=db_now(),
            error=None,
        )
    )
    if recipients:
        query = query.where(deliveries.c.recipient.in_(sorted(recipients)))
    return connection.execute(query).rowcount


def _reopen_step(
    connection: sa.Connection, operation_id: UUID, step: str, users: Sequence[str]
) -> None:
    """Let a step run again for *users* only; its former result is kept."""
    here = (
        operation_steps.c.operation_id == operation_id,
        operation_steps.c.name == step,
    )
    row = connection.execute(sa.select(operation_steps).where(*here)).one()
    memo = dict(row.memo or {})
    before = memo.get(RESENT_KEY, {})
    memo[RESENT_KEY] = {
        # Recipients of an earlier resend that failed must still get their mail.
        "to": sorted({*before.get("to", ()), *users}),
        "state": before.get("state", row.state),
        "result": before.get("result", row.result),
        "error": before.get("error", row.error),
    }
    connection.execute(
        sa.update(operation_steps)
        .where(*here)
        .values(state=StepState.PENDING, finished_at=None, error=None, memo=memo)
    )
