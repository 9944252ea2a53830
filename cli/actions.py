"""The command ``actions list``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from rich.text import Text

from actions.posting.doubts import find_silent_steps
from actions.read_actions import LastRun
from cli.connection import read_database
from cli.options import AppOption, flag, takes_json
from cli.output import err, format_due, out, style_state
from models.database.engine import read_clock
from models.operation_state import OperationState
from models.units import format_age
from overview.actions import ListedAction, ShownAction, fetch_listed_actions

#: Actions whose mails nobody gets that are named.
_SILENT_SHOWN = 10


@takes_json
def list_actions(
    *,
    app: AppOption = None,
    deleted: bool = flag("--deleted", "List deleted actions as well."),
) -> None:
    """
    List scheduled actions.

    The action that is due next comes first.
    """
    with read_database() as connection:
        read = fetch_listed_actions(connection, app=app, deleted=deleted)
        now = read_clock(connection)
    found = list(read)
    out().listed(
        found,
        lambda each: {
            "uid": each.uid,
            "app": each.app,
            "name": each.name,
            "state": style_action_state(each.state),
            "last": format_last(each.last, now),
            "next": _format_next(each),
            "when": each.sentence,
        },
        spare=("when", "app", "last", "name"),
        empty="No scheduled actions. Post one with: minutehand actions post FILE"
        " --app APP",
    )
    _warn_of_silent(found)


def _warn_of_silent(found: Sequence[ListedAction]) -> None:
    """Name the first actions whose mails nobody gets."""
    silent = (
        f"{each.name} (uid {each.uid}): {problem.message}"
        for each in found
        if each.deleted_at is None
        for problem in find_silent_steps(each.written)
    )
    for text in islice(silent, _SILENT_SHOWN):
        err().warn(text)
    if next(silent, None) is not None:
        err().warn("There are more such actions; these are the first.")


def _format_next(shown: ShownAction) -> str:
    if shown.waits_for_event:
        return "on event"
    return format_due(shown.following[0], shown.zone) if shown.following else "-"


_STYLES = {"active": "green", "paused": "yellow", "quarantined": "bold red"}


def format_last(last: LastRun | None, now: datetime) -> Text:
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


def style_action_state(state: str) -> Text:
    """Return the name of an action's state in its colour."""
    return Text(state, style=_STYLES.get(state, "bright_black"))
