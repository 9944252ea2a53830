"""``actions post``: reads a document, refuses or stores it, and shows what follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from actions.lookup import fetch_app
from actions.posting.changes import Changes
from actions.posting.foretell import (
    Outcome,
    find_doubts,
    foretell_post,
    post_all_with_outcomes,
    post_with_outcome,
)
from actions.posting.references import fetch_references
from actions.previews.sentences import describe
from cli.connection import get_actor, get_settings, read_database, write_database
from cli.options import JsonOption, read_file
from cli.output import err, format_both, out, print_json, print_note, print_warning
from models.door.documents import read_actions
from models.scheduled_action import ScheduledActionModel

#: Next occurrences that are shown after a post.
_SHOWN = 5
#: Changes of each kind that are listed for people.
_LISTED = 10


def post(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="JSON: one action, a list, or one action per line; - is standard"
            " input.",
        ),
    ],
    *,
    app: Annotated[
        str,
        typer.Option(
            "--app", metavar="UID", help="Small app that the actions belong to."
        ),
    ],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace an action that has the same name or uid."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show what would change in the next 30 days; store nothing.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Post or replace a scheduled action, or a list of them.

    It takes effect now: earlier occurrences do not run. If one action of a list is
    refused, none is stored.
    """
    settings = get_settings()
    text = read_file(file)
    with read_database() as connection:
        zone = fetch_app(connection, app).timezone or settings.timezone
    read = read_actions(text, default_timezone=zone, task_rules=settings.task_rules)
    if isinstance(read, tuple):
        _post_many(app, read, replace=replace, dry_run=dry_run, json=json)
    elif dry_run:
        _show_changes(app, read, replace=replace, json=json)
    else:
        _post_one(app, read, replace=replace, json=json)


def _post_one(
    app: str, action: ScheduledActionModel, *, replace: bool, json: bool
) -> None:
    with write_database() as connection:
        outcome = post_with_outcome(
            connection,
            app,
            action,
            replace=replace,
            lookback=get_settings().lookback,
            by=get_actor(),
        )
    if json:
        print_json(outcome.as_json(count=_SHOWN))
    else:
        _print(action, outcome)
    _warn(app, action, outcome.posted.superseded)


def _post_many(
    app: str,
    actions: Sequence[ScheduledActionModel],
    *,
    replace: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """Post a list; only ``--json`` prints what became of each action."""
    with write_database() as connection:
        outcomes = post_all_with_outcomes(
            connection,
            app,
            actions,
            replace=replace,
            lookback=get_settings().lookback,
            by=get_actor(),
            dry_run=dry_run,
        )
    if json:
        print_json([each.as_json(count=1) for each in outcomes])
    else:
        created = sum(each.posted.created for each in outcomes)
        would = "Would post" if dry_run else "Posted"
        also = "replace" if dry_run else "replaced"
        out().print(f"{would} {created:,} and {also} {len(outcomes) - created:,}.")
    _warn_of_many(app, actions, outcomes)
    if dry_run:
        print_note("Nothing was stored (--dry-run).")


def _warn_of_many(
    app: str, actions: Sequence[ScheduledActionModel], outcomes: Sequence[Outcome]
) -> None:
    """Print the first doubts, and count what will not run."""
    superseded = sum(len(each.posted.superseded) for each in outcomes)
    if superseded:
        print_warning(
            f"{superseded:,} occurrences were due before this edit and will not run."
        )
    with read_database() as connection:
        known = fetch_references(connection, app, actions)
    told = 0
    for index, action in enumerate(actions):
        for problem in find_doubts(known, action):
            print_warning(f"/{index}{problem}")
            told += 1
        if told >= _LISTED:
            print_warning("There may be more warnings; these are the first.")
            return


def _print(action: ScheduledActionModel, outcome: Outcome) -> None:
    posted, following = outcome.posted, outcome.find_next(count=_SHOWN)
    verb = "Posted" if posted.created else "Replaced"
    line = Text(f"{verb} ").append(action.name, style="bold")
    out().print(line.append(f" (uid {posted.uid}, revision {posted.revision})."))
    out().print(Text(describe(action)))
    if following:
        out().print("Next:")
    for at in following:
        out().print(f"  {format_both(at)}")
    if outcome.state != "active":
        print_note(f"The action is {outcome.state}, so its schedule does not run.")


def _warn(
    app: str, action: ScheduledActionModel, superseded: Sequence[datetime]
) -> None:
    """Warn of superseded occurrences, silent mails and names *app* does not have."""
    for at in superseded:
        err().print(
            Text("superseded: ", style="yellow").append(
                f"{format_both(at)} was due before this edit and will not run.",
                style="default",
            )
        )
    with read_database() as connection:
        known = fetch_references(connection, app, [action])
    for problem in find_doubts(known, action):
        print_warning(str(problem))


def _show_changes(
    app: str, action: ScheduledActionModel, *, replace: bool, json: bool
) -> None:
    """Compare the schedules before and after a post; nothing is stored."""
    with write_database() as connection:
        difference = foretell_post(
            connection, app, action, replace=replace, lookback=get_settings().lookback
        )
    if json:
        print_json(difference.as_json())
    else:
        out().print(Text(describe(action)))
        _print_changes(difference.changes)
    _warn(app, action, difference.posted.superseded)
    print_note("Nothing was stored (--dry-run).")


def _print_changes(changes: Changes) -> None:
    added = [(f"+ {format_both(at)}", "green") for at in changes.added]
    removed = [(f"- {format_both(at)}", "red") for at in changes.removed]
    moved = [
        (f"~ {format_both(was)} moves to {format_both(is_now)}", "yellow")
        for was, is_now in changes.moved
    ]
    if not (added or removed or moved):
        out().print(f"Nothing changes until {format_both(changes.until)}.")
    for lines, word in ((added, "added"), (removed, "removed"), (moved, "moved")):
        for line, style in lines[:_LISTED]:
            out().print(Text(line, style=style))
        if len(lines) > _LISTED:
            out().print(f"  and {len(lines) - _LISTED:,} more {word}")
