"""The commands ``actions pause|resume`` and ``apps pause|resume``."""

from __future__ import annotations

from typing import Annotated

from actions.lookup import find_action
from actions.pausing import pause_and_resume
from actions.pausing.pause_state import APP
from actions.pausing.targets import pause_target, resume_target
from cli.connection import change_database, get_settings, write_database
from cli.options import (
    ActionArgument,
    AppOption,
    app_argument,
    option,
    takes_json,
    takes_pause,
)
from cli.output import describe_pause, err, out, say_until
from models.errors import UsageError
from models.requests.notes import PauseModel
from models.units import format_count
from overview.actions import fetch_shown_action

_OptionalApp = Annotated[str | None, app_argument("Uid of a small app.")]
_AllOption = Annotated[
    bool, option("--all", "The whole installation, instead of one APP.")
]

#: The question of everybody who pauses something.
_MEANING = (
    "Operations that are already recorded still run. Occurrences that come due during"
    " the pause are not recorded, and catch_up does not run them afterwards."
)


@takes_json
@takes_pause
def pause_action(
    action: ActionArgument, *, app: AppOption = None, asked: PauseModel
) -> None:
    """
    Pause a scheduled action.

    Operations that are already recorded still run. Occurrences that come due during
    the pause are not recorded and never run, whatever catch_up says.
    """
    with write_database() as connection:
        uid = find_action(connection, action, app=app).uid
        changed = pause_and_resume.pause_action(connection, uid, asked)
        shown = fetch_shown_action(connection, uid)
    if out().gave_json(shown):
        return
    out().say(f"Paused {shown.name} (uid {uid}){say_until(shown.pause, shown.zone)}.")
    if changed:
        err().say(f"{_MEANING} To undo: minutehand actions resume {uid}")
    else:
        err().say("It was already paused.")


@takes_json
def resume_action(action: ActionArgument, *, app: AppOption = None) -> None:
    """
    Resume a scheduled action.

    It takes effect now: occurrences that came due during the pause do not run.
    """
    with write_database() as connection:
        uid = find_action(connection, action, app=app).uid
        bounds = get_settings().app_bounds
        changed = pause_and_resume.resume_action(connection, uid, bounds=bounds)
        shown = fetch_shown_action(connection, uid)
    if out().gave_json(shown):
        return
    if shown.pause is not None:
        whose = "its app" if shown.pause.scope == APP else "the installation"
        out().say(f"{shown.name} (uid {uid}) stays paused with {whose}:")
        out().say(f"  {describe_pause(shown.pause, shown.zone)}")
        return
    out().say(f"Resumed {shown.name} (uid {uid}).")
    if not changed:
        err().say("It was not paused.")
    if not shown.active:
        err().say(
            'The action is inactive. To let it run, post it again with "active": true.'
        )


@takes_json
@takes_pause
def pause_apps(
    app: _OptionalApp = None, *, everything: _AllOption = False, asked: PauseModel
) -> None:
    """
    Pause a small app, or all small apps.

    Actions that are posted during the pause are paused, too. Operations that are
    already recorded still run. Occurrences that come due during the pause are not
    recorded and never run, whatever catch_up says.
    """
    _refuse_neither(app, everything=everything)
    paused = change_database(pause_target, app, asked)
    if out().gave_json(paused):
        return
    what = "all small apps" if app is None else f"small app {app}"
    out().say(f"Paused {what}{say_until(paused.pause)}: {_count(paused.actions)}.")
    command = "apps resume --all" if app is None else f"apps resume {app}"
    err().say(f"{_MEANING} To undo: minutehand {command}")


@takes_json
def resume_apps(app: _OptionalApp = None, *, everything: _AllOption = False) -> None:
    """
    Resume a small app, or all small apps.

    It takes effect now. Actions that were paused on their own stay paused; with --all,
    so do apps that were paused on their own.
    """
    _refuse_neither(app, everything=everything)
    resumed = change_database(resume_target, app)
    if out().gave_json(resumed):
        return
    what = "all small apps" if app is None else f"small app {app}"
    if app is not None and resumed.whole is not None:
        out().say(f"{app} stays paused with the installation:")
        out().say(f"  {describe_pause(resumed.whole)}")
        return
    out().say(f"Resumed {what}: {_count(resumed.actions)}.")
    if app is None and resumed.still_paused:
        with_apps = f" Paused apps: {', '.join(resumed.apps)}." if resumed.apps else ""
        stay = "stays" if resumed.still_paused == 1 else "stay"
        left = f"{_count(resumed.still_paused)} {stay} paused by another pause"
        err().say(f"{left}.{with_apps}")


def _count(actions: int) -> str:
    return format_count(actions, "action", "actions")


def _refuse_neither(app: str | None, *, everything: bool) -> None:
    if (app is None) is not everything:
        msg = "Name either the uid of a small app, or --all for the whole installation."
        raise UsageError(msg)
