"""What an action does, and who gets its mails, as an admin writes it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)

from models.errors import RuleError
from models.fields.addresses import check_url
from models.fields.field_types import (
    MOST_NAMES,
    DomainName,
    Name,
    Names,
    UserNames,
    drop_repeated,
)
from models.fields.strict_model import (
    OURS,
    DocumentModel,
    Most,
    get_keys,
    optional,
    show,
)
from models.operation_state import Queue
from models.run_task import RunTaskModel

#: The group that every user of the small app is in.
EVERYONE = "all"


class RecipientFilterModel(DocumentModel):
    """
    The union of the users and the members of the groups, then a filter.

    *inactive*: a disabled or expired account. *inactivated*: an account that its user
    never activated. Neither means "not seen lately". Both are left out by default.

    Args:
        users: Ids or addresses of users.
        groups: Names of groups; all is everybody.
        include_inactivated_users: Also those who never activated their account.
        include_inactive_users: Also those who are disabled or expired.
        only_inactivated_users: Only those who never activated their account.
        only_inactive_users: Only those who are disabled or expired.
    """

    users: UserNames = Field(default=(), examples=[["toco@tou.can"]])
    groups: Names = Field(default=(), examples=[["all"]])
    include_inactivated_users: bool = False
    include_inactive_users: bool = False
    only_inactivated_users: bool = False
    only_inactive_users: bool = False


class Standing(StrEnum):
    """Why a user gets the mails of an action, or does not."""

    NAMED = "named"  # in, by id or address
    IN_GROUP = "in a group"  # in, by a group that is named
    TRIGGERS = "triggers"  # in, if an event of theirs triggers the action
    NOT_NAMED = "not named"  # out
    INACTIVE = "inactive"  # out: disabled or expired
    INACTIVATED = "inactivated"  # out: never activated
    NOT_ONLY = "not the only ones"  # out: an only flag asks for others
    NOBODY = "nobody"  # out: the action has no recipients


#: What people write for "every domain there is" instead of true.
EVERY_DOMAIN = "all"

_BOOLEAN: TypeAdapter[bool] = TypeAdapter(bool)


def read_boolean(value: object) -> bool | None:
    """Return the boolean that *value* is or says, such as "yes"; None if neither."""
    try:
        return _BOOLEAN.validate_python(value)
    except ValidationError:
        return None


class RefreshModel(DocumentModel):
    """
    Rebuild the data of these domains in staging; None: of every domain.

    Args:
        domains: Names of domains; "all": every domain.
        force: Read sources that have not changed, too.
    """

    domains: (
        Annotated[
            tuple[DomainName, ...], Most(MOST_NAMES), AfterValidator(drop_repeated)
        ]
        | None
    ) = optional(["sales", "stores"])
    force: bool = False


class PublishModel(DocumentModel):
    """
    Publish what is staged: any of the three parts.

    Args:
        data: The staged versions of the domains.
        design: The staged design.
        permissions: The staged permissions.
    """

    data: bool = False
    design: bool = False
    permissions: bool = False


class SendEmailModel(DocumentModel):
    """
    Send a template of the small app to each recipient.

    Args:
        template: Name of a template of the small app.
    """

    template: Name = Field(examples=["inactive"])


class CallWebhookModel(DocumentModel):
    """
    POST the operation to an address, signed (Standard Webhooks).

    Args:
        url: An http or https address that is not internal.
    """

    url: Annotated[str, Field(max_length=2000), AfterValidator(check_url)] = Field(
        examples=["https://example.com/hook"]
    )


def _read_switch(value: object, _: object) -> Literal[True] | None:
    """Read a step without arguments, which is requested or not."""
    if value is None:
        return None

    asked = read_boolean(value)
    if asked is None:
        msg = f"{show(value)} is neither true nor false."
        raise RuleError(msg, "Write true or false.")

    return True if asked else None


def _read_refresh(value: object, handler: Any) -> RefreshModel | None:
    """Read ``{"domains": [...]}``, or true or "all" for every domain."""
    if value is None or isinstance(value, RefreshModel):
        return value
    if not isinstance(value, dict):
        asked = True if value == EVERY_DOMAIN else read_boolean(value)
        if asked is None:
            msg = f"{show(value)} does not say which domains to refresh."
            raise RuleError(msg, f"Write {_REFRESH_FORMS}.")
        return RefreshModel() if asked else None

    if value.get("domains") == EVERY_DOMAIN:
        value = {**value, "domains": None}
    elif value.get("domains") in (None, []) and not _has_others(value, RefreshModel):
        msg = f"{show(value)} names no domain to refresh."
        raise RuleError(msg, f"Write {_REFRESH_FORMS}.")

    refresh: RefreshModel = handler(value)
    return refresh


_REFRESH_FORMS = '{"domains": ["sales"]}, or true for every domain there is'


def _has_others(value: dict[str, object], model: type[DocumentModel]) -> bool:
    """Tell whether *value* has keys that *model* refuses; that is reported first."""
    return any(key not in model.model_fields for key in value)


def _read_publish(value: object, handler: Any) -> PublishModel | None:
    """Read the parts to publish, or true for all three; None if there is no part."""
    if value is None or isinstance(value, PublishModel):
        return value
    if not isinstance(value, dict):
        asked = read_boolean(value)
        if asked is None:
            msg = f"{show(value)} does not say what to publish."
            hint = 'Write {"data": true}, or true for data, design and permissions.'
            raise RuleError(msg, hint)
        value = dict.fromkeys(PublishModel.model_fields, asked)

    publish: PublishModel = handler(value)
    return publish if publish.data or publish.design or publish.permissions else None


def _read_step(value: object, handler: Any) -> Any:
    """Read a step that is an object, or false if it is not requested."""
    if not isinstance(value, dict | DocumentModel) and read_boolean(value) is False:
        return None

    return handler(value)


def _read_notify(value: object, info: ValidationInfo) -> Literal[True] | None:
    """Read the step that sends notices; refuse it in what people write."""
    # Only documents that people write are read with a context: the default zone.
    if info.context is not None:
        msg = "'notify' is a step that only the scheduler adds."
        hint = (
            "Name who hears of failures in the notices of the app: see docs/notices.md."
        )
        raise RuleError(msg, hint)

    return _read_switch(value, None)


_Switch = Annotated[Literal[True] | None, WrapValidator(_read_switch)]


#: The steps that are objects, and what they take.
STEP_MODELS: Mapping[str, type[DocumentModel]] = {
    "refresh": RefreshModel,
    "publish": PublishModel,
    "send_email": SendEmailModel,
    "call_webhook": CallWebhookModel,
    "run_task": RunTaskModel,
}

#: The steps that send a mail to each recipient of the action.
MAILING_STEPS = frozenset({"send_email", "send_execsum"})

#: The step that sends a task of the users' own: the last, whose end is the whole end.
RUN_TASK = "run_task"

#: Those that share the staging of their app, so that one such operation runs at a time.
HEAVY_STEPS = frozenset({"refresh", "publish"})


class OperationModel(DocumentModel):
    """
    The steps of an action. They run in the order of the fields here, not of the JSON.

    A field that is None is a step that was not requested.

    Args:
        refresh: Rebuild data of the small app in staging.
        publish: Make what is staged live.
        send_email: Send a template to each recipient.
        send_execsum: Send a summary of the live data, as PDF, to each recipient.
        maintenance: Remove what is old. Of the installation's own action alone.
        call_webhook: POST to an address, signed.
        run_task: Send a task to a Celery application of yours.
        notify: Report failures. Of the installation's own actions alone.
    """

    refresh: Annotated[RefreshModel | None, WrapValidator(_read_refresh)] = None
    publish: Annotated[PublishModel | None, WrapValidator(_read_publish)] = None
    send_email: Annotated[SendEmailModel | None, WrapValidator(_read_step)] = optional(
        {"template": "inactive"}
    )
    send_execsum: _Switch = None
    maintenance: _Switch = None
    call_webhook: Annotated[CallWebhookModel | None, WrapValidator(_read_step)] = (
        optional({"url": "https://example.com/hook"})
    )
    run_task: Annotated[RunTaskModel | None, WrapValidator(_read_step)] = optional(
        {"name": "myproject.tasks.report", "queue": "reports"}
    )
    notify: Annotated[Literal[True] | None, OURS, BeforeValidator(_read_notify)] = None

    @model_validator(mode="after")
    def _refuse_nothing(self) -> Self:
        # It would run for ever and do nothing.
        if not self.step_names:
            msg = "No step is requested."
            hint = f"Write at least one of: {', '.join(get_keys(type(self)))}."
            raise RuleError(msg, hint)
        return self

    @property
    def step_names(self) -> tuple[str, ...]:
        """The steps that were requested, in the order in which they run."""
        return tuple(n for n in STEP_NAMES if getattr(self, n) is not None)

    @property
    def queue(self) -> Queue:
        """Heavy if there is a refresh or publish; a task alone needs no worker."""
        if self.step_names == (RUN_TASK,):
            return Queue.TASKS
        is_heavy = not HEAVY_STEPS.isdisjoint(self.step_names)
        return Queue.HEAVY if is_heavy else Queue.QUICK


class ConditionModel(DocumentModel):
    """
    What must be so for the steps after refresh to run.

    Args:
        refreshed: true: only if refresh brought something new.
    """

    refreshed: bool = Field(examples=[True])

    @field_validator("refreshed")
    @classmethod
    def _refuse_false(cls, refreshed: bool) -> bool:  # noqa: FBT001 - as pydantic calls it
        if not refreshed:
            raise RuleError("false is no condition.", "Write true, or leave 'if' out.")
        return refreshed


#: All steps, in the order in which they run.
STEP_NAMES = tuple(OperationModel.model_fields)


def order_steps(asked: Collection[str]) -> tuple[str, ...]:
    """
    Return the steps among the keys *asked*, in the order in which they run.

    Args:
        asked: Of ``operations`` in a stored document; what nothing here knows is left
            out, for a newer version may have added it.
    """
    return tuple(name for name in STEP_NAMES if name in asked)


def find_unknown_steps(asked: Collection[str]) -> tuple[str, ...]:
    """Return the keys *asked* of ``operations`` that are no steps here."""
    return tuple(name for name in asked if name not in STEP_NAMES)


def explain_unknown_steps(names: Collection[str]) -> str:
    """Return why an action with the steps *names* cannot run, and what to do."""
    return (
        f"{show(min(names))} is no step of this version. A newer one posted it: "
        "install that here, too."
    )
