"""The options that say which operations a command is about, once for all commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

import typer

from cli.options import (
    ActionOption,
    AppOption,
    OccurrencesFromOption,
    OccurrencesUntilOption,
    QueueOption,
    ReasonOption,
    StatesOption,
    read_period,
)
from models.operation_state import Trigger
from models.requests.operations import OperationFilterModel

#: By the names of ``OperationFilterModel``, in the order of the help.
_OPTIONS: Mapping[str, Any] = {
    "app": AppOption,
    "action": ActionOption,
    "state": StatesOption,
    "queue": QueueOption,
    "trigger": Annotated[
        Trigger | None,
        typer.Option("--trigger", help="Only operations that this caused."),
    ],
    "reason": ReasonOption,
    "text": Annotated[
        str | None,
        typer.Option(
            "--text",
            help="Only operations with this text in what triggered them, the uid of"
            " their action, their user, reason or error; or with this id.",
        ),
    ],
    "since": OccurrencesFromOption,
    "until": OccurrencesUntilOption,
}


def takes_filter(command: Callable[..., None]) -> Callable[..., None]:
    """Give *command*, which takes ``wanted``, the options that this is made from."""
    hints = get_type_hints(command, include_extras=True)
    own = [
        each.replace(annotation=hints[each.name])
        for each in signature(command).parameters.values()
        if each.name != "wanted"
    ]
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _OPTIONS.items()
    ]
    places = [each for each in own if each.kind is not Parameter.KEYWORD_ONLY]
    others = [each for each in own if each.kind is Parameter.KEYWORD_ONLY]

    @wraps(command)
    def call(*args: Any, **given: Any) -> None:
        asked = {name: given.pop(name) for name in _OPTIONS}
        asked["since"], asked["until"] = read_period(asked["since"], asked["until"])
        said = {name: value for name, value in asked.items() if value is not None}
        command(*args, wanted=OperationFilterModel(**said), **given)

    all_of_them = [*places, *options, *others]
    call.__signature__ = signature(command).replace(  # type: ignore[attr-defined]
        parameters=all_of_them
    )
    call.__annotations__ = {each.name: each.annotation for each in all_of_them}
    return call
