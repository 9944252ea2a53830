"""Which scheduled actions are meant: one filter for the API, pages and bulk changes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field

from models.fields.field_types import Uid
from models.fields.strict_model import DocumentModel, Most
from models.operation_state import Queue
from models.requests.operations import LONGEST_TEXT, MOST_NAMED
from models.revision import ActionState
from models.when import KINDS


class Trouble(StrEnum):
    """What is wrong with an action."""

    ANY = "any"
    FAILED = "failed"  # its last run failed
    MISSED = "missed"  # its last occurrences were missed
    QUARANTINED = "quarantined"  # its rule cannot be read


#: The keys of ``when``.
ActionKind = StrEnum("ActionKind", {key.upper(): key for key in KINDS})  # type: ignore[misc]


class ActionFilterModel(DocumentModel):
    """Which actions: those that match all that is given, and are not deleted."""

    app: Uid | None = Field(default=None, description="Uid of a small app.")
    state: ActionState | None = Field(
        default=None, description="Left out: all that are not deleted."
    )
    kind: ActionKind | None = Field(
        default=None,
        description="The key of `when` that they have, alone or in a list.",
    )
    queue: Queue | None = Field(
        default=None, description="The queue that carries their operations."
    )
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] | None = Field(
        default=None, description="Part of the name or uid, in whatever case."
    )
    trouble: Trouble | None = Field(
        default=None,
        description="What is wrong with them: their last run, or their rule.",
    )
    uids: Annotated[tuple[Uid, ...], Most(MOST_NAMED)] | None = Field(
        default=None, description="One of these."
    )

    def but(self, **members: object) -> Self:
        """Return the same filter but for *members*, which are not checked."""
        return self.model_copy(update=members)
