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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import Field

from models.database.engine import Author, db_now, reading, writing
from models.database.journal import find_author, note_change
from models.database.lists import belongs_to
from models.database.tables import deliveries, operation_steps, operations
from models.errors import ConflictError, InvalidDocumentError, NotFoundError, Problem
from models.fields.field_types import Instant, Uid, UserName
from models.fields.strict_model import DocumentModel, Most
from models.operation_state import MailState, OperationState, StepState
from models.units import format_count
from operations.cancel_and_retry import (
    REOPENED,
    RETRIED_STATES,
    is_beside_live,
    lock_action_of,
)
from operations.claiming.claimed import RESENT_KEY, RETURN_KEY
from operations.mail.list_mails import MailFilter, count_mails, count_operations

#: The states of operations that may have left mails which can be sent again.
RESENT_STATES = frozenset({*RETRIED_STATES, OperationState.SUCCEEDED})

#: The most operations of one request: each is a transaction of its own, and all
#: together take some seconds.
MOST_OPERATIONS = 500

_MOST_RECIPIENTS = 1000


class ResentState(StrEnum):
    """The states of mails that can be sent again."""

    UNCERTAIN = "uncertain"
    FAILED = "failed"


class ConfirmMailsModel(DocumentModel):
    """Uncertain mails that arrived."""

    operation_id: UUID | None = Field(
        default=None, description="Only mails of this operation."
    )
    app: Uid | None = Field(
        default=None, description="Only mails of this small app.", examples=["shop"]
    )
    action: Uid | None = Field(
        default=None,
        description="Only mails of this scheduled action.",
        examples=["weekly-report"],
    )
    recipients: Annotated[tuple[UserName, ...], Most(_MOST_RECIPIENTS)] = Field(
        default=(), description="Only to these; empty: to all."
    )
    from_: Instant | None = Field(
        default=None,
        alias="from",
        description="Only mails that last changed at or after this.",
        examples=["2026-01-05T00:00:00Z"],
    )
    until: Instant | None = Field(
        default=None,
        description="Only mails that last changed before this.",
        examples=["2026-01-12T00:00:00Z"],
    )
    expected_count: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="How many you expect; needed unless an operation is named.",
        examples=[3],
    )
    dry_run: bool = Field(default=False, description="Only count.")

    def select(self, app: str | None) -> MailFilter:
        """Return the mails that are meant, of *app* alone; None: of all."""
        return MailFilter(
            app=app,
            action_uid=self.action,
            operation_id=self.operation_id,
            recipients=frozenset(self.recipients),
            since=self.from_,
            until=self.until,
        )


class ResendMailsModel(ConfirmMailsModel):
    """Mails to be sent again."""

    state: ResentState = Field(
        default=ResentState.UNCERTAIN,
        description="uncertain: they may have arrived. failed: they did not.",
    )

    def select(self, app: str | None) -> MailFilter:
        """Return the mails that are meant, of *app* alone; None: of all."""
        wanted = ConfirmMailsModel.select(self, app)
        return replace(wanted, state=MailState(self.state.value))


@dataclass(frozen=True, slots=True)
class ResolvedMails:
    """
    What became of the mails that matched.

    ``refused`` says why mails were left unchanged, by operation.
    """

    matched: int
    changed: int
    refused: dict[str, str]
    dry_run: bool


def resolve_asked(
    engine: sa.Engine,
    wanted: MailFilter,
    expected: int | None,
    *,
    resend: bool,
    by: Author,
) -> ResolvedMails:
    """
    Resolve the mails of *wanted* as ``resolve_mails`` does, if they are as expected.

    Args:
        engine: Each operation is a transaction of its own.
        wanted: Which mails.
        expected: How many the caller has seen. None: one operation is named.
        resend: Whether to send them again; otherwise they are marked as sent.
        by: Who asks.

    Raises:
        InvalidDocumentError: Neither an operation nor a count is given.
        ConflictError: There are more or fewer mails than expected, or too many
            operations for one request, or the one operation cannot be reopened now.
        NotFoundError: The one operation has no such mails.
    """
    if wanted.operation_id is None and expected is None:
        problem = Problem(
            "/expected_count",
            "is missing, and no operation is named.",
            'Ask with "dry_run": true first, and write the count that was matched.',
        )
        raise InvalidDocumentError((problem,))
    with reading(engine) as connection:
        total = count_mails(connection, wanted).total()
        many = count_operations(connection, wanted)
    if expected not in {None, total}:
        raise ConflictError(
            f"{format_count(total, 'mail matches', 'mails match')}, and"
            f" {format_count(expected or 0, 'was', 'were')} expected."
            " Nothing was changed. Look again, then ask with the new count"
        )
    if many > MOST_OPERATIONS:
        raise ConflictError(
            f"these are mails of {many:,} operations, and at most {MOST_OPERATIONS} can"
            " be resolved at a time. Narrow it down with from and until"
        )
    return resolve_mails(engine, wanted, resend=resend, by=by)


def foresee_mails(connection: sa.Connection, wanted: MailFilter) -> ResolvedMails:
    """Return how many mails would be resolved."""
    total = count_mails(connection, wanted).total()
    return ResolvedMails(total, 0, {}, dry_run=True)


def resolve_mails(
    engine: sa.Engine, wanted: MailFilter, *, resend: bool, by: Author
) -> ResolvedMails:
    """
    Resolve the mails of *wanted*, one operation at a time.

    To be sent again, an operation is reopened. Only its steps with such mails run, and
    only for these recipients; then it returns to its former state.

    Args:
        engine: Each operation is a transaction of its own.
        wanted: Has the state UNCERTAIN; to be sent again, it may be FAILED instead.
            Mails that were sent are never sent again.
        resend: Whether to send them again; otherwise they are marked as sent.
        by: Who decided it.

    Raises:
        NotFoundError: *wanted* names one operation and nothing else but recipients,
            and it is unknown, or the mail to one of them is not in that state.
        ConflictError: That one operation is not final, its worker has not stopped, or
            its ``overlap`` is skip and another run of its action is live.
    """
    decide = resend_mails if resend else confirm_mails
    whole = replace(wanted, action_uid=None, since=None, until=None)
    if wanted.operation_id is not None and wanted == whole:
        with writing(engine, author=by) as connection:
            done = decide(connection, wanted, is_strict=True)
        return ResolvedMails(done, done, {}, dry_run=False)
    query = _select(wanted, deliveries.c.operation_id, operations.c.recorded_at)
    with reading(engine) as connection:
        total = count_mails(connection, wanted).total()
        latest = query.distinct().order_by(operations.c.recorded_at)
        ids = connection.scalars(latest).all()
    changed, refused = 0, dict[str, str]()
    for operation_id in ids:
        ours = replace(wanted, operation_id=operation_id)
        try:
            with writing(engine, author=by) as connection:
                changed += decide(connection, ours)
        except (ConflictError, NotFoundError) as error:
            refused[str(operation_id)] = str(error)
    return ResolvedMails(total, changed, refused, dry_run=False)


def confirm_mails(
    connection: sa.Connection, wanted: MailFilter, *, is_strict: bool = False
) -> int:
    """
    Mark the mails of one operation as ``sent``; its worker may be sending others.

    Args:
        is_strict: Whether it must have a mail to each recipient of *wanted*.
    """
    row = _lock(connection, wanted)
    found = _find(connection, wanted, is_strict=is_strict)
    count = _settle(connection, wanted, MailState.SENT)
    _note(connection, row, "confirmed", found)
    return count


def resend_mails(
    connection: sa.Connection, wanted: MailFilter, *, is_strict: bool = False
) -> int:
    """Have the mails of one operation sent again; as ``confirm_mails``."""
    # see resolve_mails
    assert wanted.state in {MailState.UNCERTAIN, MailState.FAILED}
    operation_id = wanted.operation_id
    assert operation_id is not None  # one at a time
    lock_action_of(connection, operation_id)
    row = _lock(connection, wanted)
    refusal = f"the mails of operation {operation_id} cannot be sent again now:"
    if row.state not in RESENT_STATES or row.claim_token is not None:
        msg = f"{refusal} it is {row.state}, or its worker has not stopped"
        raise ConflictError(msg)
    found = _find(connection, wanted, is_strict=is_strict)
    count = _settle(connection, wanted, MailState.FAILED)
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
        raise ConflictError(
            f"{refusal} another run of its action is under way, and the overlap of the"
            " action is skip. Wait for that run"
        )
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


def _lock(connection: sa.Connection, wanted: MailFilter) -> sa.Row[Any]:
    """Lock an operation: until the commit, its worker cannot change any mark."""
    query = sa.select(operations).where(
        operations.c.id == wanted.operation_id, *belongs_to(wanted.app)
    )
    row = connection.execute(query.with_for_update()).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no operation {wanted.operation_id}")
    return row


def _find(
    connection: sa.Connection, wanted: MailFilter, *, is_strict: bool
) -> dict[str, list[str]]:
    """
    Return the recipients of the mails that are *wanted*, by step.

    Raises:
        NotFoundError: There is none at all, or, if *is_strict*, none to one of those
            who are named.
    """
    query = _select(wanted, deliveries.c.step, deliveries.c.recipient)
    rows = connection.execute(query.order_by(deliveries.c.recipient)).all()
    named = wanted.recipients if is_strict else frozenset()
    missing = named - {row.recipient for row in rows}
    if missing or not rows:
        whom = f" to {', '.join(map(repr, sorted(missing)))}" if missing else ""
        msg = f"operation {wanted.operation_id} has no {wanted.state} mail{whom}"
        raise NotFoundError(msg)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for step, recipient in rows:
        found[step].append(recipient)
    return found


def _select(wanted: MailFilter, *columns: sa.Column[Any]) -> sa.Select[Any]:
    query = sa.select(*columns).join_from(deliveries, operations)
    return query.where(*wanted.match())


def _settle(connection: sa.Connection, wanted: MailFilter, after: MailState) -> int:
    """Change exactly the mails that ``_find`` found; nobody else can, see ``_lock``."""
    # What concerns the operation was looked at when it was locked.
    here = replace(wanted, app=None, action_uid=None)
    by = find_author(connection).name
    settled = {"state": after, "resolved_by": by, "error": None}
    query = sa.update(deliveries).where(*here.match()).values(settled)
    now = {"resolved_at": db_now(), "updated_at": db_now()}
    return connection.execute(query.values(now)).rowcount


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
