"""Which operations people mean, and what they send with a change of one. Pure."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field

from models.fields.field_types import Instant, Name, Uid
from models.fields.strict_model import DocumentModel, Most, described
from models.operation_state import Mark, OperationState, Queue, Reason, Trigger
from models.requests.notes import NoteModel

#: Actions or operations that may be named one by one.
MOST_NAMED = 1000

#: Characters of a text that is looked for.
LONGEST_TEXT = 200


class OperationFilterModel(DocumentModel):
    """Which operations; what is left out matches all."""

    app: Uid | None = described("Uid of a small app.")
    action: Name | None = described("Uid of an action, or its name.")
    state: Annotated[tuple[OperationState, ...], Most(len(OperationState))] = Field(
        default=(),
        examples=[["failed"]],
        description="One of these states; may be repeated.",
    )
    queue: Queue | None = described("Of this queue.")
    trigger: Trigger | None = described("Caused by this.")
    reason: Reason | None = described("With this reason, whatever follows it.")
    text: Annotated[str, Field(max_length=LONGEST_TEXT)] | None = described(
        "The id; or a part of what triggered it, of the action's uid, of"
        " the user, the reason or the error, in upper or lower case."
    )
    since: Instant | None = described(
        "With an occurrence at or after this.", alias="from"
    )
    until: Instant | None = described("With an occurrence before this.")
    recorded_since: Instant | None = described(
        "Recorded at or after this.", alias="recorded_from"
    )
    recorded_until: Instant | None = described("Recorded before this.")
    mark: Mark | None = described(
        "Between two attempts, or with mails that are uncertain."
    )
    same_as: UUID | None = described("Failed of the same cause as this operation.")
    ids: Annotated[tuple[UUID, ...], Most(MOST_NAMED)] | None = described(
        "One of these."
    )


class RetryModel(NoteModel):
    """
    How to run an operation again.

    Args:
        from_step: The step with which to begin: it and all after it run again, whether
            or not they succeeded. Left out: the first that has not succeeded.
    """

    from_step: Name | None = None
