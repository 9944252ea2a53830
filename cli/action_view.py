"""What the commands that show scheduled actions have in common."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from actions.read_actions import LastRun
from cli.output import style_state
from models.operation_state import OperationState
from models.units import format_age

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
