"""One change of many operations or actions, as people ask for it. Pure."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import Field, ValidationInfo, WrapValidator, model_validator

from models.errors import RuleError
from models.fields.field_types import Instant, Name, Uid
from models.fields.instants import format_instant
from models.fields.strict_model import DocumentModel, Most
from models.operation_state import OperationState, Queue, Reason, Trigger
from models.when import KINDS

#: Actions or operations that may be named one by one.
MOST_NAMED = 1000

#: Characters of the text that names and uids are searched for.
LONGEST_TEXT = 200

#: Characters of a note.
LONGEST_NOTE = 1000


class BulkKind(StrEnum):
    """What may be done to many at once: the first two to operations."""

    CANCEL = "cancel"
    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"

    @property
    def is_of_operations(self) -> bool:
        """Whether operations are changed; else, actions are."""
        return self in {BulkKind.CANCEL, BulkKind.RETRY}


class ChosenState(StrEnum):
    """The states of actions that can be changed."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    PAUSED = "paused"
    QUARANTINED = "quarantined"


class ChosenTrouble(StrEnum):
    """What is wrong with actions."""

    ANY = "any"
    FAILED = "failed"  # their last run failed
    MISSED = "missed"  # their last occurrences were missed
    QUARANTINED = "quarantined"


#: The kinds of ``when``, by the key that names them in a document.
ActionKind = StrEnum("ActionKind", {key.upper(): key for key in KINDS})  # type: ignore[misc]


class OperationFilterModel(DocumentModel):
    """
    Which operations; what is left out matches all.

    Args:
        action: Uid or name.
        since: Of the occurrence, inclusive.
        until: Of the occurrence, exclusive.
        recorded_since: Of when they were recorded, inclusive.
        recorded_until: Of when they were recorded, exclusive.
        ids: Only these.
    """

    app: Uid | None = None
    action: Name | None = None
    state: Annotated[tuple[OperationState, ...], Most(len(OperationState))] = Field(
        default=(), examples=[["failed"]]
    )
    reason: Reason | None = None
    queue: Queue | None = None
    trigger: Trigger | None = None
    since: Instant | None = Field(default=None, alias="from")
    until: Instant | None = None
    recorded_since: Instant | None = Field(default=None, alias="recorded_from")
    recorded_until: Instant | None = None
    ids: Annotated[tuple[UUID, ...], Most(MOST_NAMED)] | None = None


class ActionFilterModel(DocumentModel):
    """
    Which actions; what is left out matches all that are not deleted.

    Args:
        kind: The key of ``when`` that they have, alone or in a list.
        text: Part of their name or uid, whatever the case of its letters.
        trouble: As for the list of actions.
        uids: Only these.
    """

    app: Uid | None = None
    state: ChosenState | None = None
    kind: ActionKind | None = None
    queue: Queue | None = None
    text: Annotated[str, Field(max_length=LONGEST_TEXT)] | None = None
    trouble: ChosenTrouble | None = None
    uids: Annotated[tuple[Uid, ...], Most(MOST_NAMED)] | None = None


def _read_filter(value: object, _handler: object, info: ValidationInfo) -> object:
    kind = info.data.get("kind")
    if kind is None:
        return value  # that is wrong, and told already
    model: type[DocumentModel] = (
        OperationFilterModel if kind.is_of_operations else ActionFilterModel
    )
    return model.model_validate(value, context=info.context)


class BulkChangeModel(DocumentModel):
    """
    A change of many.

    Args:
        filter: Which: operations for cancel and retry, else actions.
        expected_count: How many the caller has seen that match. Needed, unless nothing
            is to be done.
        dry_run: Only count.
        note: Why; kept with what is changed.
        until: When a pause ends by itself.
    """

    kind: BulkKind = Field(examples=["pause"])
    filter: Annotated[
        OperationFilterModel | ActionFilterModel, WrapValidator(_read_filter)
    ] = Field(examples=[{"app": "shop"}])
    expected_count: Annotated[int, Field(ge=0, strict=True)] | None = None
    dry_run: bool = False
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] | None = None
    until: Instant | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.until is not None and self.kind is not BulkKind.PAUSE:
            msg = f"'until' is for pauses, and this is to {self.kind}."
            raise RuleError(msg, "Leave it out.")
        if self.expected_count is None and not self.dry_run:
            msg = "'expected_count' is missing."
            hint = (
                'Write how many you have seen: ask first, with "dry_run": true, which'
                " changes nothing."
            )
            raise RuleError(msg, hint)
        return self

    @property
    def chosen(self) -> dict[str, Any]:
        """The filter as JSON, as it is stored and read again."""
        given = self.filter.model_dump(by_alias=True, exclude_defaults=True)
        plain: dict[str, Any] = json.loads(json.dumps(given, default=_write))
        return plain


def _write(value: object) -> str:
    return format_instant(value) if isinstance(value, datetime) else str(value)
