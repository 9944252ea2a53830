"""``actions list``, ``show``, ``pause``, ``resume`` and ``delete``."""

from __future__ import annotations

from datetime import datetime
from json import dumps
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from rich.syntax import Syntax
from rich.text import Text

from actions.listing import (
    fetch_actions,
    fetch_app,
    find_action,
    find_next,
    find_problem,
    get_action_state,
)
from actions.posting import delete_action, set_paused
from actions.sentences import describe
from cli.connection import read_database, write_database
from cli.options import ActionArgument, AppOption, JsonOption
from cli.output import (
    format_both,
    out,
    print_fields,
    print_json,
    print_note,
    print_table,
)
from models.door import read_action_object
from models.errors import MinutehandError

#: Occurrences that ``show`` foretells.
_SHOWN = 5

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
    if json:
        print_json([_make_json(row, find_next(row, count=1)) for row in rows])
        return
    print_table(
        ("uid", "app", "name", "state", "next", "when"),
        (
            [
                row.uid,
                row.app,
                row.name,
                _style(row),
                _format_next(row, find_next(row, count=1)),
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
    following = find_next(row, count=_SHOWN)
    if json:
        print_json({**_make_json(row, following), "document": row.document})
        return
    waits = f"{row.event}, {row.delay or 'at once'}" if row.event else None
    print_fields(
        [
            ("uid", row.uid),
            ("app", row.app),
            ("name", row.name),
            ("state", _style(row)),
            ("why", row.quarantine_reason or find_problem(row)),
            ("revision", str(row.revision)),
            ("when", _describe(row)),
            ("event", waits),
            ("queue", row.queue),
            ("overlap", row.overlap),
            ("effective", format_both(row.effective_from)),
            ("created", format_both(row.created_at)),
            ("updated", format_both(row.updated_at)),
            ("next", "\n".join(format_both(at) for at in following) or None),
        ]
    )
    out().print()
    text = _dump(row.document)
    out().print(Syntax(text, "json", theme="ansi_dark", background_color="default"))


def pause(
    action: ActionArgument, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """
    Pause a scheduled action: record no occurrences.

    What is recorded already still runs.
    """
    _switch(action, app, paused=True, json=json)


def resume(
    action: ActionArgument, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """
    Resume a paused action from now on.

    Occurrences that came while it was paused do not run.
    """
    _switch(action, app, paused=False, json=json)


def delete(
    action: ActionArgument, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """
    Delete a scheduled action; its history stays.

    Operations that wait are canceled when a worker takes them.
    """
    with write_database() as connection:
        uid = find_action(connection, action, app=app).uid
        delete_action(connection, uid)
        row = find_action(connection, uid)
    if json:
        print_json(_make_json(row, []))
    else:
        out().print(f"Deleted {row.name} (uid {uid}).", markup=False)


def _switch(given: str, app: str | None, *, paused: bool, json: bool) -> None:
    with write_database() as connection:
        uid = find_action(connection, given, app=app).uid
        changed = set_paused(connection, uid, paused=paused)
        row = find_action(connection, uid)
    if json:
        print_json(_make_json(row, find_next(row, count=1)))
        return
    word = "Paused" if paused else "Resumed"
    out().print(f"{word} {row.name} (uid {uid}).", markup=False)
    if not changed:
        print_note("It was so already.")
    if not paused and not row.active:
        print_note('It is inactive: to let it run, post it again with "active": true.')


def _make_json(row: sa.Row[Any], following: list[datetime]) -> dict[str, object]:
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
        "quarantined_at": row.quarantined_at,
        "quarantine_reason": row.quarantine_reason,
        "problem": find_problem(row),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "deleted_at": row.deleted_at,
    }


def _format_next(row: sa.Row[Any], following: list[datetime]) -> str:
    if row.event is not None and get_action_state(row) == "active":
        return "on event"
    return format_both(following[0]) if following else "-"


def _describe(row: sa.Row[Any]) -> str:
    problem = find_problem(row)
    if problem is not None:
        return f"cannot be read: {problem}"
    try:
        return describe(read_action_object(row.document))
    except MinutehandError:
        # It is listed because it cannot be read: quarantined.
        return "cannot be read"


def _style(row: sa.Row[Any]) -> Text:
    state = get_action_state(row)
    return Text(state, style=_STYLES.get(state, "bright_black"))


def _dump(document: dict[str, Any]) -> str:
    return dumps(document, ensure_ascii=False, indent=2)
