"""
Mails that may not have arrived, and what an operator decides about them.

SMTP has no exactly-once delivery. If a worker dies between handing over a mail and
marking it, the mail is ``uncertain``, and Minutehand never sends it again by itself. An
operator who knows more confirms that it arrived, or has it sent again, under the same
operation, the same Message-ID and the same marks. One that certainly failed can be sent
again in the same way, such as when a full mailbox has been emptied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.engine import Author, db_now, reading, writing
from models.database.journal import note_change
from models.database.tables import deliveries, operation_steps, operations
from models.errors import ConflictError, NotFoundError
from models.operation_state import DeliveryState, OperationState, StepState
from operations.cancel_and_retry import (
    REOPENED,
    RETRIED_STATES,
    is_beside_live,
    lock_action_of,
)
from operations.claiming.obstacles import RESENT_KEY, RETURN_KEY
from operations.mail.list_mails import MailSelection, match_mails

#: The states of operations that may have left mails which can be sent again.
RESENT_STATES = frozenset({*RETRIED_STATES, OperationState.SUCCEEDED})


@dataclass(slots=True)
class Resolved:
    """How many mails were resolved, and why others were not, by operation."""

    done: int = 0
    refused: dict[UUID, str] = field(default_factory=dict)


class ResolvedJson(TypedDict):
    """
    What became of the mails that matched.

    ``refused`` says why mails were left unchanged, by operation.
    """

    matched: int
    changed: int
    refused: dict[str, str]
    dry_run: bool


def make_resolved_json(
    matched: int, resolved: Resolved, *, dry_run: bool
) -> ResolvedJson:
    """Return the documented object for resolving *matched* mails."""
    refused = {str(id_): text for id_, text in resolved.refused.items()}
    return {
        "matched": matched,
        "changed": resolved.done,
        "refused": refused,
        "dry_run": dry_run,
    }


def resolve_mails(
    engine: sa.Engine, wanted: MailSelection, *, resend: bool, by: Author
) -> Resolved:
    """
    Resolve the mails of *wanted*, one operation at a time.

    Args:
        engine: Each operation is a transaction of its own.
        wanted: Has the state UNCERTAIN; to be sent again, it may be FAILED instead.
        resend: Whether to send them again; otherwise they are marked as sent.
        by: Who decided it.
    """
    with reading(engine) as connection:
        ids = connection.execute(
            sa.select(deliveries.c.operation_id, operations.c.recorded_at)
            .join_from(deliveries, operations)
            .where(*match_mails(wanted))
            .distinct()
            .order_by(operations.c.recorded_at)
        ).all()
    resolved = Resolved()
    decide = _resend if resend else _confirm
    for row in ids:
        ours = replace(wanted, operation_id=row.operation_id)
        try:
            with writing(engine, author=by) as connection:
                resolved.done += decide(connection, row.operation_id, ours, by.name)
        except (ConflictError, NotFoundError) as error:
            resolved.refused[row.operation_id] = str(error)
    return resolved


def confirm_mails(
    connection: sa.Connection,
    operation_id: UUID,
    *,
    recipients: Collection[str] = (),
    app: str | None = None,
    by: str | None,
) -> int:
    """
    Mark uncertain mails of an operation as ``sent``, because somebody confirms them.

    Args:
        operation_id: An operation in any state; its worker may be sending other mails.
        recipients: Ids of users; empty: all whose mail is uncertain.
        app: Uid of the only small app whose operations are known. None: all are.
        by: Who confirms it.

    Returns:
        How many mails were marked.

    Raises:
        NotFoundError: There is no such operation, or the mail to one of *recipients* is
            not uncertain.
    """
    wanted = _select(operation_id, recipients, DeliveryState.UNCERTAIN, app)
    return _confirm(connection, operation_id, wanted, by, all_of=recipients)


def resend_mails(
    connection: sa.Connection,
    operation_id: UUID,
    *,
    recipients: Collection[str] = (),
    state: DeliveryState | None = DeliveryState.UNCERTAIN,
    app: str | None = None,
    by: str | None,
) -> int:
    """
    Send mails of an operation again, without repeating anything else of it.

    The row is reopened. Only the steps with such mails run, and only for these
    recipients; then the operation returns to its former state.

    Args:
        operation_id: A final operation.
        recipients: Ids of users; empty: all whose mail is in *state*.
        state: UNCERTAIN or FAILED. Mails that were sent are never sent again.
        app: Uid of the only small app whose operations are known. None: all are.

    Returns:
        How many mails will be sent again.

    Raises:
        NotFoundError: As for ``confirm_mails``.
        ConflictError: The operation is not final, its worker has not stopped, or its
            ``overlap`` is skip and another run of its action is live.
    """
    wanted = _select(operation_id, recipients, state, app)
    return _resend(connection, operation_id, wanted, by, all_of=recipients)


def _select(
    operation_id: UUID,
    recipients: Collection[str],
    state: DeliveryState | None,
    app: str | None,
) -> MailSelection:
    """Return the mails of one operation that are meant."""
    return MailSelection(
        app=app,
        operation_id=operation_id,
        recipients=frozenset(recipients),
        state=state,
    )


def _confirm(
    connection: sa.Connection,
    operation_id: UUID,
    wanted: MailSelection,
    by: str | None,
    *,
    all_of: Collection[str] = (),
) -> int:
    """Confirm what is *wanted* of an operation, which must have mails to *all_of*."""
    row = _lock(connection, operation_id, wanted.app)
    found = _find(connection, operation_id, wanted, all_of)
    count = _settle(connection, wanted, DeliveryState.SENT, by)
    _note(connection, row, "confirmed", found)
    return count


def _resend(
    connection: sa.Connection,
    operation_id: UUID,
    wanted: MailSelection,
    by: str | None,
    *,
    all_of: Collection[str] = (),
) -> int:
    """Send again what is *wanted* of an operation, as ``_confirm`` confirms it."""
    # see resend_mails
    assert wanted.state in {DeliveryState.UNCERTAIN, DeliveryState.FAILED}
    lock_action_of(connection, operation_id)
    row = _lock(connection, operation_id, wanted.app)
    if row.state not in RESENT_STATES or row.claim_token is not None:
        msg = (
            f"the mails of operation {operation_id} cannot be sent again now: it is"
            f" {row.state}, or its worker has not stopped"
        )
        raise ConflictError(msg)
    found = _find(connection, operation_id, wanted, all_of)
    count = _settle(connection, wanted, DeliveryState.FAILED, by)
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
    _note(connection, row, "sent again", found)
    return count


def _note(
    connection: sa.Connection,
    row: sa.Row[Any],
    change: str,
    found: Mapping[str, Sequence[str]],
) -> None:
    """Add it to the record of changes, with who the mails are to, by step."""
    note_change(
        connection, "mail", str(row.id), change, app=row.app, after={"to": dict(found)}
    )


def _lock(
    connection: sa.Connection, operation_id: UUID, app: str | None
) -> sa.Row[Any]:
    """Lock an operation: until the commit, its worker cannot change any mark."""
    query = sa.select(operations).where(operations.c.id == operation_id)
    if app is not None:
        query = query.where(operations.c.app == app)
    row = connection.execute(query.with_for_update()).one_or_none()
    if row is None:
        msg = f"there is no operation {operation_id}"
        raise NotFoundError(msg)
    return row


def _find(
    connection: sa.Connection,
    operation_id: UUID,
    wanted: MailSelection,
    all_of: Collection[str],
) -> dict[str, list[str]]:
    """
    Return the recipients of the mails that are *wanted*, by step.

    Raises:
        NotFoundError: There is none at all, or none to one of *all_of*.
    """
    rows = connection.execute(
        sa.select(deliveries.c.step, deliveries.c.recipient)
        .join_from(deliveries, operations)
        .where(*match_mails(wanted))
        .order_by(deliveries.c.recipient)
    ).all()
    missing = set(all_of) - {row.recipient for row in rows}
    if missing or not rows:
        whom = f" to {', '.join(map(repr, sorted(missing)))}" if missing else ""
        msg = f"operation {operation_id} has no {wanted.state} mail{whom}"
        raise NotFoundError(msg)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for step, recipient in rows:
        found[step].append(recipient)
    return found


def _settle(
    connection: sa.Connection,
    wanted: MailSelection,
    after: DeliveryState,
    by: str | None,
) -> int:
    """Change exactly the mails that ``_find`` found; nobody else can, see ``_lock``."""
    # What concerns the operation was looked at when it was locked.
    here = replace(wanted, app=None, action_uid=None)
    query = (
        sa.update(deliveries)
        .where(*match_mails(here))
        .values(
            state=after,
            resolved_by=by,
            resolved_at=db_now(),
            updated_at=db_now(),
            error=None,
        )
    )
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
