"""What ``run_task`` asks for: a task of the user's own Celery application. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Self, TypeVar, cast

from pydantic import Field, JsonValue, ValidationInfo, field_validator, model_validator

from models.errors import RuleError
from models.fields.duration import parse_elapsed
from models.fields.field_types import (
    LONGEST_QUEUE,
    Name,
    QueueName,
    RuleText,
    parsed_by,
)
from models.fields.placeholders import check_placeholders, find_names, find_texts
from models.fields.strict_model import (
    Complaint,
    DocumentModel,
    Most,
    optional,
    refuse,
    refuse_all,
    show,
)
from models.fields.task_rules import TASK_RULES, TaskRules

#: How each header of ours begins, on the messages of tasks and of their answers.
OUR_HEADERS = "minutehand-"

#: Headers of one task, and characters of the text of one.
MOST_HEADERS = 50
LONGEST_HEADER = 4096

#: How long the end of a task is waited for, unless its action says otherwise.
WITHIN = timedelta(hours=1)

#: Celery's own headers (as_task_v2), kombu's (compression), and those by which RabbitMQ
#: would deliver a copy to a queue that no rule has checked (cc, bcc).
_TAKEN_HEADERS = frozenset(
    {
        *("lang", "task", "id", "shadow", "eta", "expires", "group", "group_index"),
        *("retries", "timelimit", "root_id", "parent_id", "argsrepr", "kwargsrepr"),
        *("origin", "ignore_result", "replaced_task_nesting", "stamped_headers"),
        *("stamps", "chord", "chain", "callbacks", "errbacks", "compression"),
        *("redelivered", "cc", "bcc"),
    }
)

_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)

#: A header's value: text, a number or a boolean; the door bounds numbers to 64 bits.
HeaderValue = JsonValue

_Value = TypeVar("_Value")


ElapsedText = Annotated[RuleText, parsed_by(parse_elapsed)]


#: Where keys of an entry of celery beat are found here.
CELERY_KEYS = {
    "task": "The name of the task is 'name'.",
    "options": "Write each of the options beside 'name': queue, priority, expires.",
}


class RunTaskModel(DocumentModel):
    """
    Send a task of the user's own Celery application by name.

    A door that knows the settings writes the queue and *wait* where they are left out;
    with an exchange, the queue stays None. A stored None of *wait* is no waiting.

    Args:
        name: Full name of the task.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        headers: More headers of its message.
        exchange: An exchange of RabbitMQ, instead of a queue.
        routing_key: For the exchange.
        queue: A queue that your workers take. Left out: that of the settings.
        connection: Name of another broker in the settings. Left out: our own.
        priority: 0 to 255, as the broker understands it.
        expires: ISO 8601 duration since it is sent; nobody begins it later.
        time_limit: ISO 8601 duration after which its worker ends it.
        soft_time_limit: ISO 8601 duration after which its worker warns it.
        wait: Whether the operation ends as the task does. Left out: it does.
        within: ISO 8601 duration; how long to wait. Left out: PT1H.
        returned: Whether to keep what the task returns, which must be JSON.
    """

    name: Name = Field(examples=["myproject.tasks.report"])
    args: tuple[JsonValue, ...] = Field(default=(), examples=[[]])
    kwargs: dict[str, JsonValue] = Field(default_factory=dict, examples=[{}])
    headers: Annotated[dict[str, HeaderValue], Most(MOST_HEADERS)] = Field(
        default_factory=dict, examples=[{"tenant": "acme"}]
    )
    exchange: QueueName | None = optional("reports")
    routing_key: (
        Annotated[str, Field(max_length=LONGEST_QUEUE, examples=["report.daily"])]
        | None
    ) = None
    queue: QueueName | None = optional("reports", validate_default=True)
    connection: Name | None = optional("shop", validate_default=True)
    priority: int | None = optional(5, ge=0, le=255)
    expires: ElapsedText | None = optional("PT1H")
    time_limit: ElapsedText | None = optional("PT10M")
    soft_time_limit: ElapsedText | None = optional("PT9M")
    wait: bool | None = optional(example=True, validate_default=True)
    within: ElapsedText | None = optional("PT1H")
    returned: bool = True

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, HeaderValue]) -> dict[str, HeaderValue]:
        for name, value in headers.items():
            _check_header_name(name)
            _check_header_value(name, value)
        return headers

    @field_validator("args", "kwargs", "headers")
    @classmethod
    def _check_placeholders(cls, value: _Value, info: ValidationInfo) -> _Value:
        """Refuse a placeholder that nobody knows, in what people write."""
        # What is stored is read without a context, and may be older than they are.
        if info.context is None:
            return value
        details = []
        for path, text in find_texts(cast("JsonValue", value)):
            try:
                check_placeholders(text)
            except RuleError as error:
                complaint = Complaint(error.message, error.hint)
                details.append(refuse(complaint, loc=path, value=text))
        if details:
            raise refuse_all(cls.__name__, details)
        return value

    @cached_property
    def given(self) -> str:
        """Args and kwargs as JSON, with their placeholders."""
        return write_given(self.args, self.kwargs)

    @cached_property
    def is_constant(self) -> bool:
        """Whether nothing is filled into what the task is given."""
        texts = (self.given, *(str(value) for value in self.headers.values()))
        return not any("{{" in text for text in texts)

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the placeholders in what the task is given."""
        given = [list(self.args), self.kwargs, self.headers]
        texts = (text for _path, text in find_texts(cast("JsonValue", given)))
        return frozenset(name for text in texts for name in find_names(text))

    @field_validator("exchange")
    @classmethod
    def _check_exchange(cls, exchange: str | None, info: ValidationInfo) -> str | None:
        rules = _get_rules(info)
        if exchange is not None and rules is not None:
            rules.check_exchange(exchange)
        return exchange

    @field_validator("routing_key")
    @classmethod
    def _check_routing_key(cls, key: str | None, info: ValidationInfo) -> str | None:
        if key is None:
            return None
        # Without an exchange it would be the name of a queue, which is checked as such.
        # If the exchange was refused, that is reported itself.
        if info.data.get("exchange", "refused") is None:
            msg = "A routing key is for an exchange, and there is none."
            raise RuleError(msg, 'Write "queue" instead, or an "exchange" beside it.')
        if len(key.encode()) > LONGEST_QUEUE:
            msg = f"{show(key)} takes more than {LONGEST_QUEUE} bytes."
            raise RuleError(msg, "Write a shorter one.")
        return key

    @field_validator("queue")
    @classmethod
    def _read_queue(cls, queue: str | None, info: ValidationInfo) -> str | None:
        if "exchange" not in info.data:
            return queue  # it was refused, which is reported itself
        if info.data["exchange"] is not None:
            if queue is None:
                return None
            msg = "A task goes to a queue or to an exchange, not to both."
            raise RuleError(msg, "Leave one of the two out.")
        rules = _get_rules(info)
        return queue if rules is None else rules.read_queue(queue)

    @field_validator("connection")
    @classmethod
    def _check_connection(cls, name: str | None, info: ValidationInfo) -> str | None:
        rules = _get_rules(info)
        if rules is not None:
            rules.check_connection(name)
            if info.data.get("exchange") is not None:
                rules.check_that_it_has_exchanges(name)
        return name

    @field_validator("wait")
    @classmethod
    def _read_wait(cls, wait: bool | None, info: ValidationInfo) -> bool | None:  # noqa: FBT001 - as pydantic calls it
        """Write down what counts for a new document; a stored one stays as it is."""
        return True if wait is None and _get_rules(info) is not None else wait

    @field_validator("within")
    @classmethod
    def _check_within(cls, within: str | None, info: ValidationInfo) -> str | None:
        if within is not None and info.data.get("wait") is False:
            msg = f"{show(within)} has no effect: the operation does not wait."
            raise RuleError(msg, 'Leave "within" out, or write "wait": true.')
        return within

    @model_validator(mode="after")
    def _check_together(self, info: ValidationInfo) -> Self:
        """Refuse what an installation does not let this small app ask for."""
        rules = _get_rules(info)
        if rules is None:
            return self
        place = "queue" if self.exchange is None else "exchange"
        checks: list[tuple[str, Callable[[], None]]] = [
            (place, lambda: rules.check_listed(self.connection, self.queue)),
            ("kwargs" if self.kwargs else "args", lambda: rules.check_size(self.given)),
        ]
        details = []
        for key, check in checks:
            try:
                check()
            except RuleError as error:
                complaint = Complaint(error.message, error.hint)
                value = getattr(self, key)
                details.append(refuse(complaint, loc=(key,), value=value))
        if details:
            raise refuse_all(type(self).__name__, details)
        return self

    @property
    def longest_wait(self) -> timedelta:
        """How long the end of the task is waited for."""
        return WITHIN if self.within is None else parse_elapsed(self.within)


def write_given(args: Sequence[JsonValue], kwargs: Mapping[str, JsonValue]) -> str:
    """Return what a task is given as JSON, as Celery writes it into a message."""
    return json.dumps([args, kwargs])


def _get_rules(info: ValidationInfo) -> TaskRules | None:
    """Return the installation's rules for tasks, if the door knows them."""
    rules: TaskRules | None = (info.context or {}).get(TASK_RULES)
    return rules


def _check_header_name(name: str) -> None:
    if _HEADER.fullmatch(name) is None:
        msg = f"{show(name)} is not the name of a header."
        hint = "Write 1 to 128 letters, digits, '-', '_' or '.', such as 'tenant'."
        raise RuleError(msg, hint)
    folded = name.casefold()
    if folded.startswith(OUR_HEADERS):
        msg = f"{show(name)} is a header that Minutehand writes itself."
        raise RuleError(msg, f"Begin it otherwise than with '{OUR_HEADERS}'.")
    if folded in _TAKEN_HEADERS:
        msg = f"{show(name)} is a header of Celery's or the broker's own."
        raise RuleError(msg, f"Choose another name, such as 'my-{folded}'.")


def _check_header_value(name: str, value: HeaderValue) -> None:
    hint = "Write text, a number, true or false."
    if not isinstance(value, str | int | float):  # a boolean is an int
        msg = f"The header {show(name)} is {show(value)}, which a header cannot hold."
        raise RuleError(msg, hint)
    if isinstance(value, str) and len(value) > LONGEST_HEADER:
        msg = f"The header {show(name)} has {len(value):,} characters."
        raise RuleError(msg, f"Write at most {LONGEST_HEADER:,}.")
