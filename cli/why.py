"""``why``: the answer to "why did it run then?", and to "why did it not?"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from actions.lookup import find_action
from cli.connection import read_database
from cli.options import ActionArgument, AppOption, JsonOption, read_instant
from cli.output import format_both, print_fields, print_json
from models.units import format_age
from overview.explaining import explain_instant

T = TypeVar("T")


def why(
    action: ActionArgument,
    *,
    at: Annotated[
        str,
        typer.Option(
            "--at", metavar="TIME", help="Past or future, such as 2026-11-23T07:00Z."
        ),
    ],
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """
    Say why an action ran, or did not.

    Looks at the minute of TIME. There is an answer for every instant.
    """
    instant = read_instant("--at", at)
    with read_database() as connection:
        uid = find_action(connection, action, app=app).uid
        answers = explain_instant(connection, uid, instant)
    if json:
        print_json([answer.as_json(uid) for answer in answers])
        return
    for answer in answers:
        print_fields(
            [
                (answer.verdict.value, answer.text),
                ("operation", _show(answer.operation_id, str)),
                ("lag", _show(answer.lag, format_age)),
                ("due before", _show(answer.previous, format_both)),
                ("due after", _show(answer.following, format_both)),
            ]
        )


def _show(value: T | None, as_text: Callable[[T], str]) -> str | None:
    return None if value is None else as_text(value)
