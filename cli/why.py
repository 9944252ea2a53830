"""``why``: answers "why did it run then?" and "why did it not?"."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from actions.explaining.why import WhyAnswer
from actions.lookup import find_action
from cli.connection import read_database
from cli.options import ActionArgument, AppOption, naming, takes_json, value
from cli.output import format_both, out
from models.units import format_seconds
from overview.why.instant import explain_asked

T = TypeVar("T")


@takes_json
def why(
    action: ActionArgument,
    *,
    at: str | None = value(
        "--at TIME",
        "Past or future, by the clock of the rule: now, -1h, 07:00, 'yesterday"
        " 07:00', 2026-11-23T07:00. Left out: the last run, and the next.",
    ),
    app: AppOption = None,
) -> None:
    """
    Explain why an action ran, or did not run.

    The answer covers the minute of TIME, and there is one for every instant.
    """
    with read_database() as connection:
        uid = find_action(connection, action, app=app).uid
        with naming("--at"):
            answers = explain_asked(connection, uid, at)
    if out().gave_json(answers):
        return
    for answer in answers:
        out().fields(
            [
                (answer.verdict.value, answer.text),
                ("occurrence", _tell(answer, answer.occurrence)),
                ("operation", _show(answer.operation_id, str)),
                ("lag", _show(answer.lag_s, format_seconds)),
                ("due before", _tell(answer, answer.previous)),
                ("due after", _tell(answer, answer.following)),
            ]
        )


def _tell(answer: WhyAnswer, at: datetime | None) -> str | None:
    return None if at is None else format_both(at, answer.zone)


def _show(value: T | None, as_text: Callable[[T], str]) -> str | None:
    return None if value is None else as_text(value)
