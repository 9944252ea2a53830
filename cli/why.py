"""``why``: the answer to "why did it run then?", and to "why did it not?"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, TypeVar
from uuid import UUID

import sqlalchemy as sa
import typer

from actions.explaining.history import fetch_history
from actions.explaining.why import Answer, History, explain
from actions.leader import get_holder, get_send_failure
from actions.listing import find_action
from cli.connection import get_engine, read_database
from cli.options import ActionArgument, AppOption, JsonOption, read_instant
from cli.output import format_both, print_fields, print_json
from models.operation_state import OperationState
from operations.sending.hindrances import find_hindrances
from overview.words import format_age

T = TypeVar("T")

#: A leader sends what waits each second; after this something is wrong.
_PATIENCE = timedelta(seconds=10)

#: Decisions read around the instant; an explanation looks at one minute.
_AROUND = timedelta(minutes=1)


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
        row = find_action(connection, action, app=app)
        history = fetch_history(
            connection, row.uid, since=instant - _AROUND, until=instant + _AROUND
        )
        waiting = _find_what_they_wait_for(connection, history)
    history = replace(history, hindrances=waiting)
    answers = explain(history, instant)
    if json:
        print_json([_make_json(row.uid, answer) for answer in answers])
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


def _find_what_they_wait_for(
    connection: sa.Connection, history: History
) -> dict[UUID, str]:
    """Return what keeps each operation from running: rows, or programs."""
    waiting = [
        each.id
        for each in history.operations
        if each.state in {OperationState.PENDING, OperationState.QUEUED}
    ]
    if not waiting:
        return {}
    pending = {
        each.id: each
        for each in history.operations
        if each.state == OperationState.PENDING
    }
    holder = get_holder(get_engine())
    failure = get_send_failure(connection)
    if holder is None or holder.is_stale:
        program = "no scheduler leads. Start one: minutehand scheduler"
    elif failure is not None:
        since = format_both(failure.since)
        program = f"the scheduler has failed to send since {since}: {failure.error}"
    else:
        program = (
            "a scheduler leads, so the broker may not take it. Ask: minutehand doctor"
        )
    late = {
        id_: program
        for id_, each in pending.items()
        if history.now - each.send_at > _PATIENCE
    }
    return late | find_hindrances(connection, waiting)


def _show(value: T | None, as_text: Callable[[T], str]) -> str | None:
    return None if value is None else as_text(value)


def _make_json(uid: str, answer: Answer) -> dict[str, object]:
    lag = answer.lag
    return {
        "action_uid": uid,
        "verdict": answer.verdict.value,
        "text": answer.text,
        "operation": answer.operation_id,
        "lag_s": None if lag is None else lag.total_seconds(),
        "previous": answer.previous,
        "following": answer.following,
    }
