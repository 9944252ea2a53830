"""``actions run``: records a manual run, and follows it if asked to."""

from __future__ import annotations

from typing import Any

import typer

from actions.leader import fetch_leader
from cli.connection import ask_database, get_actor, get_engine, get_settings
from cli.operations_watch import follow
from cli.options import (
    ActionArgument,
    AppOption,
    JsonOption,
    YesOption,
    confirm,
    flag,
    read_note,
    takes,
    value,
)
from cli.output import err, out
from dispatch.manual_runs import find_runnable, run_now
from models.database.engine import Author
from overview.operations import fetch_shown_operation


def _read_asked(
    *,
    key: str | None = value(
        "--key", "Makes the call repeatable: the same key is the same run."
    ),
    user: str | None = value(
        "--user ID", "Run as if this user had triggered it (event-driven actions only)."
    ),
    step: list[str] | None = value(
        "--step STEP", "Run only this step of the action; may be repeated."
    ),
    force: bool = flag("--force", "Refresh even data whose source is unchanged."),
    note: str | None = value("--note TEXT", "Why; kept with the operation."),
) -> dict[str, Any]:
    asked = {"user_id": user, "steps": step, "force": force}
    return {"key": key, **asked, "note": read_note(note)}


@takes("asked", _read_asked)
def run(
    action: ActionArgument,
    *,
    app: AppOption = None,
    asked: dict[str, Any],
    wait: bool = flag(
        "--wait", "Wait until it ends; exit with 0 if it succeeded, else 1."
    ),
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Run a scheduled action now.

    Its schedule does not change. Exits with 5 if a run of it is under way and its
    overlap is skip. An event-driven action runs for all its recipients, after a
    question, unless --user names one.
    """
    found = ask_database(find_runnable, action, app=app, user_id=asked["user_id"])
    if found.is_for_all:
        what = (
            f"Run {found.name!r} for all its recipients (it is event-driven;"
            " --user ID runs it for one user)"
        )
        if not confirm(what, yes=yes):
            err().say("Nothing was recorded.")
            raise typer.Exit(1)
    for problem in found.silent:
        err().warn(str(problem))
    operation_id = run_now(get_engine(), found.uid, author=Author(get_actor()), **asked)
    leader = ask_database(fetch_leader)
    if leader is None:
        starter = get_settings().name_starter("minutehand scheduler")
        err().say(
            f"No scheduler leads, so the run waits to be sent. Start one: {starter}."
        )
    if wait:
        if not json:
            out().print(str(operation_id))
        raise typer.Exit(follow(operation_id, json=json))
    if json:
        out().json(ask_database(fetch_shown_operation, operation_id))
    else:
        out().print(str(operation_id))
