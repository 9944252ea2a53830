"""``operations list`` and ``show``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from actions.listing import fetch_app, find_action
from cli.connection import read_database
from cli.operation_view import (
    ShownOperation,
    add_steps,
    format_took,
    make_operation_json,
    make_steps_table,
    read_operation,
)
from cli.options import (
    AppOption,
    JsonOption,
    OperationArgument,
    read_operation_id,
    read_period,
)
from cli.output import (
    format_both,
    out,
    print_fields,
    print_json,
    print_table,
    style_state,
)
from models.operation_state import OperationState
from operations.listing import OperationFilter, fetch_operations


def list_operations(  # noqa: PLR0913 - the options of the command
    *,
    app: AppOption = None,
    action: Annotated[
        str | None,
        typer.Option(
            "--action", metavar="ACTION", help="Uid of an action, or its name."
        ),
    ] = None,
    state: Annotated[
        OperationState | None, typer.Option("--state", help="Only those in this state.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Occurrences from here on."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Occurrences before this."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")
    ] = 50,
    json: JsonOption = False,
) -> None:
    """
    List operations.

    The latest come first. TIME has an offset: 2026-11-23T06:00:00Z.
    """
    since, end = read_period(from_, until)
    with read_database() as connection:
        if app is not None:
            fetch_app(connection, app)
        uid = None
        if action is not None:
            uid = find_action(connection, action, app=app).uid
        wanted = OperationFilter(app, uid, state, since, end, limit)
        rows = fetch_operations(connection, wanted)
        shown = add_steps(connection, rows) if json else []
    if json:
        print_json([make_operation_json(each) for each in shown])
        return
    print_table(
        ("id", "app", "what", "occurrence", "queue", "state", "took", "reason"),
        (
            [
                str(row.id),
                row.app,
                row.triggered_by,
                format_both(row.occurrence),
                row.queue,
                style_state(row.state),
                format_took(row),
                _describe_reason(row),
            ]
            for row in rows
        ),
        empty="No operations.",
    )


def show_operation(operation: OperationArgument, *, json: JsonOption = False) -> None:
    """
    Show an operation.

    Its id is also its Celery task id.
    """
    with read_database() as connection:
        shown = read_operation(connection, read_operation_id(operation))
    if json:
        print_json(make_operation_json(shown))
    else:
        print_operation(shown)


def print_operation(shown: ShownOperation) -> None:
    """Print *shown* for people."""
    row = shown.row
    print_fields(
        [
            ("id", str(row.id)),
            ("what", row.triggered_by),
            ("action", f"{row.action_uid} (revision {row.action_revision})"),
            ("app", row.app),
            ("user", row.user_id),
            ("trigger", row.trigger),
            ("occurrence", format_both(row.occurrence)),
            ("state", style_state(row.state)),
            ("reason", row.reason),
            ("missed", _describe_missed(row)),
            ("queue", row.queue),
            ("attempt", f"{row.attempt} of {row.attempts_allowed}"),
            ("recorded", format_both(row.recorded_at)),
            ("sent", format_both(row.sent_at)),
            ("started", format_both(row.started_at)),
            ("finished", format_both(row.finished_at)),
            ("took", format_took(row)),
            ("worker", row.worker),
            ("error", row.error),
        ]
    )
    if shown.steps:
        out().print()
        out().print(make_steps_table(shown))


def _describe_reason(row: sa.Row[Any]) -> str:
    """Return the reason of *row*, and what a missed row stands for."""
    return ": ".join(each for each in (row.reason, _describe_missed(row)) if each)


def _describe_missed(row: sa.Row[Any]) -> str | None:
    """Return how many occurrences the missed *row* stands for, and which."""
    details = row.details or {}
    if "count" not in details:
        return None
    more = " or more" if details.get("more") else ""
    first, last = (
        format_both(datetime.fromisoformat(details[key])) for key in ("first", "last")
    )
    return f"{details['count']:,}{more}, {first} to {last}"
