"""The commands ``actions list``, ``show`` and ``run``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from json import dumps
from zoneinfo import ZoneInfo

import typer
from rich.syntax import Syntax
from rich.text import Text

from actions.lease import fetch_leader
from actions.pausing.pause_state import APP, INSTALLATION
from actions.posting.doubts import find_silent_steps
from actions.previews.sentences import describe_duration, describe_terms
from actions.read_actions import FollowingAction, LastRun, RevisionNote
from cli.connection import (
    ask_database,
    get_actor,
    get_engine,
    get_settings,
    read_database,
)
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
from cli.output import describe_pause, err, format_both, format_due, out, style_state
from dispatch.manual_runs import find_runnable, run_now
from models.database.engine import Author, read_clock
from models.fields.delay import join_delay
from models.fields.duration import Duration
from models.operation_state import OperationState
from models.requests import RunModel
from models.units import format_age
from overview.actions.shown import (
    DetailedAction,
    ListedAction,
    ShownAction,
    fetch_detailed_action,
    fetch_listed_actions,
)
from overview.operations import fetch_shown_operation

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
        found = fetch_listed_actions(connection, app=app, deleted=deleted)
        now = read_clock(connection)
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


#: Next occurrences that are listed.
_SHOWN = 5

#: Revisions that are listed, the latest first.
_REVISIONS_SHOWN = 10


@takes_json
def show_action(action: ActionArgument, *, app: AppOption = None) -> None:
    """
    Show a scheduled action.

    A deleted action is found by its uid.
    """
    with read_database() as connection:
        found = fetch_detailed_action(
            connection, action, app=app, count=_SHOWN, revisions=_REVISIONS_SHOWN
        )
        now = read_clock(connection)
    if out().gave_json(found):
        return
    _print_action(found, now)
    _print_revisions(found.revisions, found.zone)
    out().print()
    text = dumps(found.document, ensure_ascii=False, indent=2)
    out().print(Syntax(text, "json", theme="ansi_dark", background_color="default"))


def _print_action(shown: DetailedAction, now: datetime) -> None:
    last = shown.last
    waiting = join_delay(shown.delay, shown.at)
    waits = f"{shown.event}, {waiting or 'at once'}" if shown.event else None
    out().fields(
        [
            ("uid", shown.uid),
            ("app", shown.app),
            ("name", shown.name),
            ("state", style_action_state(shown.state)),
            ("paused", _describe_pause(shown)),
            ("why", shown.quarantine_reason or shown.problem),
            ("revision", str(shown.revision)),
            ("when", shown.sentence),
            ("event", waits),
            ("then", "\n".join(map(_tell_follower, shown.followers)) or None),
            ("queue", shown.queue),
            ("overlap", shown.overlap),
            ("terms", "\n".join(describe_terms(shown.document)) or None),
            ("effective", format_both(shown.effective_from, shown.zone)),
            ("created", format_both(shown.created_at, shown.zone)),
            ("updated", format_both(shown.updated_at, shown.zone)),
            ("last", None if last is None else format_last(last, now)),
            ("operation", None if last is None else str(last.operation)),
            ("next", _tell_following(shown)),
        ]
    )


def _tell_following(shown: DetailedAction) -> str | None:
    return "\n".join(format_due(e, shown.zone) for e in shown.following) or None


def _tell_follower(each: FollowingAction) -> str:
    delay = describe_duration(each.delay)
    later = "" if Duration.parse(each.delay).is_zero else f", {delay} later"
    return f"{each.name} on {each.on}{later}"


def _print_revisions(revisions: Sequence[RevisionNote], zone: ZoneInfo) -> None:
    out().table(
        revisions,
        lambda each: {
            "number": str(each.revision),
            "change": each.change,
            "at": format_both(each.recorded_at, zone),
            "by": each.changed_by or "-",
            "note": each.note or "",
        },
        apart=True,
    )


def _describe_pause(shown: DetailedAction) -> str | None:
    if shown.pause is None:
        return None
    whose = {APP: "with its app, ", INSTALLATION: "with the installation, "}
    return whose.get(shown.pause.scope, "") + describe_pause(shown.pause, shown.zone)


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
