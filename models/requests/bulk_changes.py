"""One change of many operations or actions, as people ask for it. Pure."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, WrapValidator, model_validator

from models.errors import RuleError
from models.fields.field_types import Instant, Note
from models.fields.strict_model import DocumentModel
from models.json_form import write_json
from models.requests.actions import ActionFilterModel
from models.requests.operations import OperationFilterModel
from models.revision import ActionState


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


class ChosenActionsModel(ActionFilterModel):
    """Which actions a bulk change is about: none that are deleted."""

    state: (
        Literal[
            ActionState.ACTIVE,
            ActionState.INACTIVE,
            ActionState.PAUSED,
            ActionState.QUARANTINED,
        ]
        | None
    ) = None


def _read_filter(value: object, _handler: object, info: ValidationInfo) -> object:
    kind = info.data.get("kind")
    if kind is None:
        return value  # that is wrong, and told already
    model: type[DocumentModel] = (
        OperationFilterModel if kind.is_of_operations else ChosenActionsModel
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
        OperationFilterModel | ChosenActionsModel, WrapValidator(_read_filter)
    ] = Field(examples=[{"app": "shop"}])
    expected_count: Annotated[int, Field(ge=0, strict=True)] | None = None
    dry_run: bool = False
    note: Note | None = None
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
        return dump_filter(self.filter)


def dump_filter(wanted: DocumentModel) -> dict[str, Any]:
    """Return what a filter says, as JSON that is read as the same filter."""
    given = wanted.model_dump(by_alias=True, exclude_defaults=True)
    plain: dict[str, Any] = json.loads(write_json(given))
    return plain
