"""``actions run``: records a manual run, and follows it if asked to."""

from __future__ import annotations

import typer

from actions.lease import fetch_leader
from cli.connection import ask_database, get_actor, get_engine, get_settings
from cli.operations_watch import follow
from cli.options import (
    ActionArgument,
    AppOption,
    YesOption,
    confirm,
    flag,
    read_note,
    takes,
    takes_json,
    value,
)
from cli.output import err, out
from dispatch.manual_runs import find_runnable, run_now
from models.database.engine import Author
from models.requests.actions import RunModel
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
) -> tuple[str | None, RunModel]:
    # Steps and users that there are not are refused by name, whatever they are called.
    steps, why = tuple(step) if step else None, read_note(note)
    asked = RunModel.model_construct(user=user, steps=steps, force=force, note=why)
    return key, asked


@takes_json
@takes("asked", _read_asked)
def run(
    action: ActionArgument,
    *,
    app: AppOption = None,
    asked: tuple[str | None, RunModel],
    wait: bool = flag(
        "--wait", "Wait until it ends; exit with 0 if it succeeded, else 1."
    ),
    yes: YesOption = False,
) -> None:
    """
    Run a scheduled action now.

    Its schedule does not change. Exits with 5 if a run of it is under way and its
    overlap is skip. An event-driven action runs for all its recipients, after a
    question, unless --user names one.
    """
    key, wanted = asked
    found = ask_database(find_runnable, action, app=app, user_id=wanted.user)
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
    author = Author(get_actor())
    operation_id = run_now(get_engine(), found.uid, wanted, key=key, author=author)
    leader = ask_database(fetch_leader)
    if leader is None:
        starter = get_settings().name_starter("minutehand scheduler")
        err().say(
            f"No scheduler leads, so the run waits to be sent. Start one: {starter}."
        )
    if wait:
        if not out().wants_json:
            out().print(str(operation_id))
        raise typer.Exit(follow(operation_id))
    if out().wants_json:
        out().json(ask_database(fetch_shown_operation, operation_id))
    else:
        out().print(str(operation_id))
