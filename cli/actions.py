"""The commands ``actions list`` and ``show``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from json import dumps
from typing import Annotated

import typer
from rich.syntax import Syntax
from rich.text import Text

from actions.pausing.pause_state import APP, INSTALLATION, Pause
from actions.posting.doubts import find_silent_steps
from actions.read_actions import LastRun, RevisionNote
from cli.connection import read_database
from cli.options import ActionArgument, AppOption, JsonOption
from cli.output import (
    describe_pause,
    format_both,
    format_due,
    out,
    print_fields,
    print_json,
    print_table,
    print_warning,
    style_state,
)
from models.database.engine import read_clock
from models.fields.delay import join_delay
from models.operation_state import OperationState
from models.units import format_age
from overview.actions.shown import (
    DetailedAction,
    ListedAction,
    ShownAction,
    fetch_detailed_action,
    fetch_listed_actions,
)

#: Next occurrences that ``show`` lists.
_SHOWN = 5

#: Revisions that ``show`` lists, the latest first.
_REVISIONS_SHOWN = 10

#: Actions whose mails nobody gets that ``list`` names.
_SILENT_SHOWN = 10

_STYLES = {"active": "green", "paused": "yellow", "quarantined": "bold red"}


def list_actions(
    *,
    app: AppOption = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="List deleted actions as well.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    List scheduled actions.

    The action that is due next comes first.
    """
    with read_database() as connection:
        found = fetch_listed_actions(connection, app=app, deleted=deleted)
        now = read_clock(connection)
    if json:
        print_json([each.as_json() for each in found])
        _warn_of_silent(found)
        return
    print_table(
        ("uid", "app", "name", "state", "last", "next", "when"),
        (
            [
                each.action.uid,
                each.action.app,
                each.action.name,
                _style(each.action.state),
                _format_last(each.last, now),
                _format_next(each.action),
                each.action.sentence,
            ]
            for each in found
        ),
        spare=("when", "app", "last", "name"),
        empty="No scheduled actions. Post one with: minutehand actions post FILE"
        " --app APP",
    )
    _warn_of_silent(found)


def _warn_of_silent(found: Sequence[ListedAction]) -> None:
    """Name the first actions whose mails nobody gets."""
    silent = (
        f"{each.action.name} (uid {each.action.uid}): {problem.message}"
        for each in found
        if each.action.deleted_at is None
        for problem in find_silent_steps(each.action.document)
    )
    for text in islice(silent, _SILENT_SHOWN):
        print_warning(text)
    if next(silent, None) is not None:
        print_warning("There are more such actions; these are the first.")


def show_action(
    action: ActionArgument, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """
    Show a scheduled action.

    A deleted action is found by its uid.
    """
    with read_database() as connection:
        found = fetch_detailed_action(
            connection, action, app=app, count=_SHOWN, revisions=_REVISIONS_SHOWN
        )
        now = read_clock(connection)
    if json:
        print_json(found.as_json())
        return
    _print_action(found, now)
    out().print()
    _print_revisions(found.revisions)
    out().print()
    text = dumps(found.action.document, ensure_ascii=False, indent=2)
    out().print(Syntax(text, "json", theme="ansi_dark", background_color="default"))


def _print_action(found: DetailedAction, now: datetime) -> None:
    shown, last = found.action, found.last
    waiting = join_delay(shown.delay, shown.at)
    waits = f"{shown.event}, {waiting or 'at once'}" if shown.event else None
    print_fields(
        [
            ("uid", shown.uid),
            ("app", shown.app),
            ("name", shown.name),
            ("state", _style(shown.state)),
            ("paused", None if shown.pause is None else _describe_pause(shown.pause)),
            ("why", shown.quarantine_reason or shown.problem),
            ("revision", str(shown.revision)),
            ("when", shown.sentence),
            ("event", waits),
            ("queue", shown.queue),
            ("overlap", shown.overlap),
            ("effective", format_both(shown.effective_from)),
            ("created", format_both(shown.created_at)),
            ("updated", format_both(shown.updated_at)),
            ("last", None if last is None else _format_last(last, now)),
            ("operation", None if last is None else str(last.operation_id)),
            ("next", "\n".join(format_due(each) for each in shown.following) or None),
        ]
    )


def _print_revisions(revisions: Sequence[RevisionNote]) -> None:
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


def _format_last(last: LastRun | None, now: datetime) -> Text:
    """Return the last outcome and its age; after a failure, the last success too."""
    if last is None:
        return Text("-")
    text = style_state(last.state)
    if last.finished_at is not None:
        text.append(f" {format_age(now - last.finished_at)} ago", style="default")
    if last.state != OperationState.SUCCEEDED:
        success = "no recent success"
        if last.succeeded_at is not None:
            success = f"last success {format_age(now - last.succeeded_at)} ago"
        text.append(f"; {success}", style="default")
    return text


def _describe_pause(pause: Pause) -> str:
    whose = {APP: "with its app, ", INSTALLATION: "with the installation, "}
    return whose.get(pause.scope or "", "") + describe_pause(pause)


def _format_next(shown: ShownAction) -> str:
    if shown.waits_for_event:
        return "on event"
    return format_due(shown.following[0]) if shown.following else "-"


def _style(state: str) -> Text:
    return Text(state, style=_STYLES.get(state, "bright_black"))
