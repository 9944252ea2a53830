"""What people ask about mails that may not have arrived: documents, and their end."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import sqlalchemy as sa
from pydantic import Field

from models.database.engine import Author, reading, writing
from models.errors import ConflictError, InvalidDocumentError, Problem
from models.fields.field_types import Instant, Uid, UserName
from models.fields.strict_model import DocumentModel, Most
from models.operation_state import DeliveryState
from operations.mail.count_mails import count_mails, count_operations
from operations.mail.list_mails import (
    MailSelection,
)
from operations.mail.uncertain_mails import (
    Resolved,
    ResolvedJson,
    confirm_mails,
    make_resolved_json,
    resend_mails,
    resolve_mails,
)

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

    @property
    def wanted_state(self) -> DeliveryState:
        """The state of the mails that are meant."""
        return DeliveryState.UNCERTAIN


class ResendMailsModel(ConfirmMailsModel):
    """Mails to be sent again."""

    state: ResentState = Field(
        default=ResentState.UNCERTAIN,
        description="uncertain: they may have arrived. failed: they did not.",
    )

    @property
    def wanted_state(self) -> DeliveryState:
        """The state of the mails that are meant."""
        return DeliveryState(self.state.value)


def resolve_asked(
    engine: sa.Engine,
    asked: ConfirmMailsModel,
    *,
    app: str | None,
    resend: bool,
    by: Author,
) -> ResolvedJson:
    """
    Do what is asked, one operation at a time.

    Args:
        engine: Each operation is a transaction of its own.
        asked: Which mails.
        app: Uid of the only small app whose mails are meant. None: of all.
        resend: Whether to send them again; otherwise they are marked as sent.
        by: Who asks.

    Raises:
        InvalidDocumentError: Neither an operation nor a count is given.
        ConflictError: There are more or fewer mails than expected, or too many
            operations for one request, or the one operation cannot be reopened now.
        NotFoundError: The one operation has no such mails.
    """
    wanted = MailSelection(
        app=app,
        action_uid=asked.action,
        operation_id=asked.operation_id,
        recipients=frozenset(asked.recipients),
        state=asked.wanted_state,
        since=asked.from_,
        until=asked.until,
    )
    with reading(engine) as connection:
        total = sum(count_mails(connection, wanted).values())
        many = count_operations(connection, wanted)
    if asked.dry_run:
        return make_resolved_json(total, Resolved(), dry_run=True)
    _check_count(asked, total, many)
    if asked.operation_id is None or asked.action or asked.from_ or asked.until:
        resolved = resolve_mails(engine, wanted, resend=resend, by=by)
        return make_resolved_json(total, resolved, dry_run=False)
    with writing(engine, author=by) as connection:
        if resend:
            done = resend_mails(
                connection,
                asked.operation_id,
                recipients=asked.recipients,
                state=asked.wanted_state,
                app=app,
                by=by.name,
            )
        else:
            done = confirm_mails(
                connection,
                asked.operation_id,
                recipients=asked.recipients,
                app=app,
                by=by.name,
            )
    return make_resolved_json(done, Resolved(done), dry_run=False)


def _check_count(asked: ConfirmMailsModel, total: int, many: int) -> None:
    if asked.operation_id is None and asked.expected_count is None:
        problem = Problem(
            "/expected_count",
            "is missing, and no operation is named.",
            'Ask with "dry_run": true first, and write the count that was matched.',
        )
        raise InvalidDocumentError((problem,))
    if asked.expected_count not in {None, total}:
        msg = (
            f"{total:,} mails match, and {asked.expected_count:,} were expected."
            " Nothing was changed. Look again, then ask with the new count"
        )
        raise ConflictError(msg)
    if many > MOST_OPERATIONS:
        msg = (
            f"these are mails of {many:,} operations, and at most {MOST_OPERATIONS} can"
            " be resolved at a time. Narrow it down with from and until"
        )
        raise ConflictError(msg)
