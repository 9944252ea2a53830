"""What people send with a request beside documents: notes, filters, choices. Pure."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, ValidationInfo, WrapValidator, model_validator

from models.errors import RuleError
from models.fields.field_types import (
    MOST_NAMES,
    DomainName,
    Instant,
    Name,
    Note,
    Uid,
    UserName,
)
from models.fields.strict_model import DocumentModel, Most, described, optional
from models.json_form import write_json
from models.operation_state import Mark, OperationState, Queue, Reason, Trigger
from models.revision import ActionState
from models.small_app import SmallAppModel, UserModel
from models.when import KINDS


class NoteModel(DocumentModel):
    """
    What somebody says about what they do.

    Args:
        note: Why, for the record of changes.
    """

    note: Note | None = optional("new kernel")


class PauseModel(DocumentModel):
    """
    A pause.

    Args:
        until: When it ends by itself, aware UTC; in JSON with an offset. None: when
            somebody ends it.
    """

    note: Note | None = optional("until the import is fixed")
    until: Instant | None = optional("2035-01-01T00:00:00Z")


#: Until somebody resumes it, for no reason that is said.
UNTIL_RESUMED = PauseModel()


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
        since: Inclusive.
        until: Exclusive, not later than now. None: now.
        which: Which of them.
        at_once: How many of its operations may be live at a time.
        expected_count: How many the caller has seen that would run. None: has not
            looked.
        dry_run: Only list.
        note: Why; kept with it.
    """

    since: Instant = Field(alias="from", examples=["2026-11-01T00:00:00Z"])
    until: Instant | None = optional("2026-11-08T00:00:00Z")
    which: Which = Which.MISSING
    at_once: Annotated[int, Field(strict=True)] = DEFAULT_AT_ONCE
    expected_count: Annotated[int, Field(ge=0, strict=True)] | None = None
    dry_run: bool = False
    note: Note | None = None


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


#: The largest number of a version that the database takes.
LARGEST_VERSION = 2**31 - 1

_Domains = Annotated[tuple[DomainName, ...], Field(min_length=1), Most(MOST_NAMES)]
_Versions = Annotated[
    dict[DomainName, Annotated[int, Field(ge=1, le=LARGEST_VERSION)]],
    Field(min_length=1),
    Most(MOST_NAMES),
]


class SmallAppBodyModel(SmallAppModel):
    """The document of a small app whose uid is in an address."""

    uid: Uid | None = None  # type: ignore[assignment]  # as the address says


class UserBodyModel(UserModel):
    """A user of a small app whose id is in an address."""

    id: UserName | None = None  # type: ignore[assignment]  # as the address says


class RefreshRequestModel(DocumentModel):
    """
    Refresh data now.

    Args:
        domains: Names. None: all.
        force: Whether to refresh data whose source has not changed, too.
    """

    domains: _Domains | None = optional(["sales"])
    force: bool = False


class MoveRequestModel(DocumentModel):
    """
    Publish or roll back now.

    Args:
        data: Whether data are meant.
        design: Whether the document of that name is meant.
        permissions: Whether the document of that name is meant.
        domains: Names of those whose data are meant. None: all.
        expected: The versions that the caller has seen and means to make live, by the
            name of the domain; with others, nothing moves. None: any.
    """

    model_config = ConfigDict(
        # What is checked below, for programs that read the schema.
        json_schema_extra={
            "anyOf": [
                {"properties": {kind: {"const": True}}, "required": [kind]}
                for kind in ("data", "design", "permissions")
            ],
            "dependentSchemas": {
                name: {
                    "anyOf": [
                        {"properties": {name: {"type": "null"}}},
                        {"properties": {"data": {"const": True}}, "required": ["data"]},
                    ]
                }
                for name in ("domains", "expected")
            },
        }
    )

    data: bool = False
    design: bool = False
    permissions: bool = False
    domains: _Domains | None = optional(["sales"])
    expected: _Versions | None = optional({"sales": 3})

    @model_validator(mode="after")
    def _refuse_nothing(self) -> Self:
        if not self.kinds:
            msg = "Neither data nor a document is asked for."
            raise RuleError(msg, 'Write, for instance, {"data": true}.')
        if self.domains is not None and not self.data:
            msg = "'domains' says which data are meant, but 'data' is not true."
            raise RuleError(msg, 'Write "data": true, or leave the domains out.')
        if self.expected is not None and not self.data:
            msg = "'expected' has versions of data, but 'data' is not true."
            raise RuleError(msg, 'Write "data": true, or leave the versions out.')
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is asked for, in the order in which it moves."""
        return tuple(
            name for name in ("data", "design", "permissions") if getattr(self, name)
        )
