"""What people ask of actions: which they mean, runs now, rest, backfills. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field

from models.fields.field_types import Instant, Name, Note, Uid
from models.fields.strict_model import DocumentModel, Most, described, optional
from models.operation_state import Queue
from models.requests.operations import LONGEST_TEXT, MOST_NAMED
from models.revision import ActionState
from models.when import KINDS

#: The most steps of one run; an action has fewer kinds.
_MOST_STEPS = 20


class RunModel(DocumentModel):
    """
    A run of an action, now.

    Args:
        steps: Those of the action's steps that are to run; the others are skipped.
            None: all of them.
        user: Id of the user who triggers the run; of event-driven actions only.
        force: Whether to refresh even data whose source has not changed.
    """

    steps: Annotated[tuple[Name, ...], Field(min_length=1), Most(_MOST_STEPS)] | (
        None
    ) = optional(["publish"])
    user: Name | None = optional("u1")
    force: bool = False
    note: Note | None = optional("the import is fixed")


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

    app: Uid | None = described("Uid of a small app.")
    state: ActionState | None = described("Left out: all that are not deleted.")
    kind: ActionKind | None = described(
        "The key of `when` that they have, alone or in a list."
    )
    queue: Queue | None = described("The queue that carries their operations.")
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] | None = (
        described("Part of the name or uid, in whatever case.")
    )
    trouble: Trouble | None = described(
        "What is wrong with them: their last run, or their rule."
    )
    uids: Annotated[tuple[Uid, ...], Most(MOST_NAMED)] | None = described(
        "One of these."
    )

    def but(self, **members: object) -> Self:
        """Return the same filter but for *members*, which are not checked."""
        return self.model_copy(update=members)


#: How many operations of a backfill are live at a time, unless somebody says so.
DEFAULT_AT_ONCE = 1


class Which(StrEnum):
    """Which of the occurrences a backfill runs."""

    MISSING = "missing"  # those that never ran: not recorded, missed, skipped, canceled
    FAILED = "failed"
    ALL = "all"  # both; what succeeded or is live never runs again


class BackfillModel(DocumentModel):
    """
    Past occurrences of an action that are to run after all.

    Args:
        until: Exclusive, not later than now. None: now.
        which: Which of them.
        at_once: How many of its operations may be live at a time.
        expected_count: How many the caller has seen that would run. None: has not
            looked.
        dry_run: Only list.
        note: Why; kept with it.
    """

    since: Instant = Field(
        alias="from", description="Inclusive.", examples=["2026-11-01T00:00:00Z"]
    )
    until: Instant | None = optional("2026-11-08T00:00:00Z")
    which: Which = Which.MISSING
    at_once: Annotated[int, Field(strict=True)] = DEFAULT_AT_ONCE
    expected_count: Annotated[int, Field(ge=0, strict=True)] | None = None
    dry_run: bool = False
    note: Note | None = None
