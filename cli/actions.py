"""``actions list``, ``show`` and ``delete``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from json import dumps
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from pydantic import ValidationError
from rich.syntax import Syntax
from rich.text import Text

from actions.listing import (
    LastRun,
    fetch_actions,
    fetch_app,
    fetch_last_runs,
    fetch_revisions,
    find_action,
    find_next,
    find_next_due,
    find_problem,
    get_action_state,
)
from actions.occurrences import Due
from actions.pausing.pause import APP, INSTALLATION, Pause, get_pause
from actions.posting.post import delete_action
from actions.wording.sentences import describe
from cli.connection import get_actor, read_database, write_database
from cli.options import ActionArgument, AppOption, JsonOption
from cli.output import (
    describe_pause,
    format_both,
    format_due,
    out,
    print_fields,
    print_json,
    print_table,
    style_state,
)
from models.database.engine import read_clock
from models.errors import MinutehandError
from models.operation_state import OperationState
from models.scheduled_action import ScheduledActionModel
from models.words import format_age

#: Occurrences that ``show`` foretells.
_SHOWN = 5

#: Revisions that ``show`` tells of, the latest first.
_REVISIONS_SHOWN = 10

_STYLES = {"active": "green", "paused": "yellow", "quarantined": "bold red"}


def list_actions(
    *,
    app: AppOption = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="List deleted ones, too.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    List scheduled actions.

    The next due come first.
    """
    with read_database() as connection:
        if app is not None:
            fetch_app(connection, app)
        rows = fetch_actions(connection, app=app, deleted=deleted)
        last = fetch_last_runs(connection, [row.uid for row in rows])
        now = read_clock(connection)
    if json:
        print_json(
            [
                {
                    **make_action_json(row, find_next(row, count=1)),
                    **_make_last_json(last.get(row.uid)),
                }
                for row in rows
            ]
        )
        return
    print_table(
        ("uid", "app", "name", "state", "last", "next", "when"),
        (
            [
                row.uid,
                row.app,
                row.name,
                _style(row),
                _format_last(last.get(row.uid), now),
                _format_next(row, find_next_due(row, count=1)),
                _describe(row),
            ]
            for row in rows
        ),
        empty="No scheduled actions. Post one with: minutehand actions post FILE",
    )


def show_action(
    action: ActionArgument, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """
    Show a scheduled action.

    Deleted ones are found by their uid.
    """
    with read_database() as connection:
        row = find_action(connection, action, app=app)
        last = fetch_last_runs(connection, [row.uid]).get(row.uid)
        revisions = fetch_revisions(connection, row.uid, limit=_REVISIONS_SHOWN)
        now = read_clock(connection)
    following = find_next_due(row, count=_SHOWN)
    if json:
        print_json(
            {
                **make_action_json(row, [each.occurrence for each in following]),
                **_make_last_json(last),
                "revisions": [dict(each._mapping) for each in revisions],  # noqa: SLF001 - SQLAlchemy's public name for it
                "document": row.document,
            }
        )
        return
    pause = get_pause(row)
    waits = f"{row.event}, {row.delay or 'at once'}" if row.event else None
    print_fields(
        [
            ("uid", row.uid),
            ("app", row.app),
            ("name", row.name),
            ("state", _style(row)),
            ("paused", None if pause is None else _describe_pause(pause)),
            ("why", row.quarantine_reason or find_problem(row)),
            ("revision", str(row.revision)),
            ("when", _describe(row)),
            ("event", waits),
            ("queue", row.queue),
            ("overlap", row.overlap),
            ("effective", format_both(row.effective_from)),
            ("created", format_both(row.created_at)),
            ("updated", format_both(row.updated_at)),
            ("last", None if last is None else _format_last(last, now)),
            ("operation", None if last is None else str(last.operation_id)),
            ("next", "\n".join(format_due(each) for each in following) or None),
        ]
    )
    out().print()
    _print_revisions(revisions)
    out().print()
    text = _dump(row.document)
    out().print(Syntax(text, "json", theme="ansi_dark", background_color="default"))


def _print_revisions(revisions: Sequence[sa.Row[Any]]) -> None:
    print_table(
        ("number", "change", "at", "by", "note"),
        (
            [
                str(each.revision),
                each.change,
                format_both(each.recorded_at),
                each.changed_by or "-",
                each.note or "",
            ]
            for each in revisions
        ),
        empty="",
    )


def delete(
    action: ActionArgument, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """
    Delete a scheduled action; its history stays.

    Operations that wait are canceled when a worker takes them.
    """
    with write_database() as connection:
        uid = find_action(connection, action, app=app).uid
        delete_action(connection, uid, by=get_actor())
        row = find_action(connection, uid)
    if json:
        print_json(make_action_json(row, []))
    else:
        out().print(f"Deleted {row.name} (uid {uid}).", markup=False)


def make_action_json(row: sa.Row[Any], following: list[datetime]) -> dict[str, object]:
    """Return what ``--json`` prints of an action."""
    pause = get_pause(row)
    return {
        "uid": row.uid,
        "app": row.app,
        "name": row.name,
        "revision": row.revision,
        "state": get_action_state(row),
        "active": row.active,
        "queue": row.queue,
        "overlap": row.overlap,
        "event": row.event,
        "delay": row.delay,
        "next": following,
        "effective_from": row.effective_from,
        "paused_at": row.paused_at,
        "pause": None if pause is None else pause.as_json(),
        "quarantined_at": row.quarantined_at,
        "quarantine_reason": row.quarantine_reason,
        "problem": find_problem(row),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "deleted_at": row.deleted_at,
    }


def _make_last_json(last: LastRun | None) -> dict[str, object]:
    return {
        "last": None if last is None else last.as_json(),
        "last_succeeded_at": None if last is None else last.succeeded_at,
    }


def _format_last(last: LastRun | None, now: datetime) -> Text:
    """Return the last outcome and its age, and the last success if that is another."""
    if last is None:
        return Text("-")
    text = style_state(last.state)
    if last.finished_at is not None:
        text.append(f" {format_age(now - last.finished_at)} ago", style="default")
    if last.state != OperationState.SUCCEEDED:
        success = "no success lately"
        if last.succeeded_at is not None:
            success = f"last success {format_age(now - last.succeeded_at)} ago"
        text.append(f"; {success}", style="default")
    return text


def _describe_pause(pause: Pause) -> str:
    whose = {APP: "with its app, ", INSTALLATION: "with the installation, "}
    return whose.get(pause.scope or "", "") + describe_pause(pause)


def _format_next(row: sa.Row[Any], following: list[Due]) -> str:
    if row.event is not None and get_action_state(row) == "active":
        return "on event"
    return format_due(following[0]) if following else "-"


def _describe(row: sa.Row[Any]) -> str:
    problem = find_problem(row)
    if problem is not None:
        return f"cannot be read: {problem}"
    try:
        return describe(ScheduledActionModel.model_validate(row.document))
    except (ValidationError, MinutehandError):
        # It is listed because it cannot be read: quarantined.
        return "cannot be read"


def _style(row: sa.Row[Any]) -> Text:
    state = get_action_state(row)
    return Text(state, style=_STYLES.get(state, "bright_black"))


def _dump(document: dict[str, Any]) -> str:
    return dumps(document, ensure_ascii=False, indent=2)
