"""``actions post``: reads a document, refuses or stores it, and shows what follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from rich.text import Text

from actions.lookup import get_action
from actions.posting.changes import RunChanges
from actions.posting.edit import (
    PostedAction,
    Terms,
    post_all_with_outcomes,
    post_with_outcome,
    tell_superseded,
)
from actions.posting.refusals import make_given, name_former
from actions.previews.sentences import describe
from cli.connection import ask_database, get_actor, get_settings, write_database
from cli.options import OwnerOption, argument, flag, reading_document, takes_json
from cli.output import err, format_both, out
from models.door.documents import read_actions
from models.errors import Problem, UsageError
from models.scheduled_action import ScheduledActionModel
from overview.previews import foretell_post

#: Next occurrences that are shown after a post.
_SHOWN = 5
#: Changes of each kind that are listed for people.
_LISTED = 10

NOTHING_STORED = "Nothing was stored (--dry-run)."


@takes_json
def post(
    file: Annotated[
        str,
        argument(
            "FILE|-",
            "JSON: one action, a list, or one action per line; - is standard input.",
        ),
    ],
    *,
    app: OwnerOption,
    replace: bool = flag(
        "--replace", "Replace an action that has the same name or uid."
    ),
    dry_run: bool = flag(
        "--dry-run", "Show what would change in the next 30 days; store nothing."
    ),
) -> None:
    """
    Post or replace a scheduled action, or a list of them.

    It takes effect now: earlier occurrences do not run. If one action of a list is
    refused, none is stored.
    """
    if Path(file).is_dir():
        raise UsageError(
            f"{file} is a folder. For all its files: minutehand actions apply {file}"
            f" --app {app}"
        )
    reading = ask_database(make_terms().find_reading, app)
    with reading_document(file) as text:
        read = read_actions(text, reading)
    if isinstance(read, tuple):
        _post_many(app, read, replace=replace, dry_run=dry_run)
    elif dry_run:
        _show_changes(app, read, replace=replace)
    else:
        _post_one(app, read, replace=replace)


def make_terms(*, replace: bool = False) -> Terms:
    """Return how the caller of this command posts, and what is said of reading."""
    settings = get_settings()
    return Terms(
        replace,
        settings.lookback,
        get_actor(),
        bounds=settings.app_bounds,
        timezone=settings.timezone,
        task_rules=settings.make_task_rules(),
    )


def _post_one(app: str, action: ScheduledActionModel, *, replace: bool) -> None:
    with write_database() as connection:
        how = make_terms(replace=replace)
        outcome = post_with_outcome(connection, app, action, how)
        kept = get_action(connection, outcome.uid or "")
        told = name_former(connection, app, make_given(action, kept))
    found = outcome.judge()
    found = dataclasses.replace(found, next=found.next[:_SHOWN])
    if not out().gave_json(found):
        _print(told, found)
    _warn(found.superseded, found.zone, found.warnings)


def _post_many(
    app: str, actions: Sequence[ScheduledActionModel], *, replace: bool, dry_run: bool
) -> None:
    """Post a list; only ``--json`` prints what became of each action."""
    with write_database() as connection:
        how = make_terms(replace=replace)
        found = post_all_with_outcomes(connection, app, actions, how, dry_run=dry_run)
    posted = found.judge()
    outcomes = posted.items
    if not out().gave_json(outcomes):
        created = sum(each.created for each in outcomes)
        would = "Would post" if dry_run else "Posted"
        also = "replace" if dry_run else "replaced"
        out().say(f"{would} {created:,} and {also} {len(outcomes) - created:,}.")
    superseded = sum(len(each.superseded) for each in outcomes)
    warn_of_many(superseded, posted.warnings, may_be_more=posted.more_warnings)
    if dry_run:
        err().say(NOTHING_STORED)


def warn_of_many(
    superseded: int, doubts: Iterable[Problem], *, may_be_more: bool
) -> None:
    """Say how many occurrences will not run, and print the first doubts."""
    if superseded:
        err().warn(tell_superseded(superseded))
    err().doubts(doubts)
    if may_be_more:
        err().warn("There may be more warnings; these are the first.")


def _print(action: ScheduledActionModel, posted: PostedAction) -> None:
    verb = "Posted" if posted.created else "Replaced"
    line = Text(f"{verb} ").append(action.name, style="bold")
    out().print(line.append(f" (uid {posted.uid}, revision {posted.revision})."))
    out().say(describe(action))
    if posted.next:
        out().say("Next:")
    for at in posted.next:
        out().say(f"  {format_both(at, posted.zone)}")
    if posted.state != "active":
        err().say(f"The action is {posted.state}, so its schedule does not run.")


def _warn(
    superseded: Sequence[datetime], zone: ZoneInfo, doubts: Sequence[Problem]
) -> None:
    """Warn of superseded occurrences, silent mails and unknown names."""
    for at in superseded:
        err().print(
            Text("superseded: ", style="yellow").append(
                f"{format_both(at, zone)} was due before this edit and will not run.",
                style="default",
            )
        )
    for problem in doubts:
        err().warn(str(problem))


def _show_changes(app: str, action: ScheduledActionModel, *, replace: bool) -> None:
    """Compare the schedules before and after a post; nothing is stored."""
    with write_database() as connection:
        foretold = foretell_post(connection, app, action, make_terms(replace=replace))
        told = name_former(connection, app, make_given(action, foretold.old))
    if not out().gave_json(foretold):
        out().say(describe(told))
        _print_changes(foretold, foretold.zone)
    _warn(foretold.superseded, foretold.zone, foretold.doubts)
    err().say(NOTHING_STORED)


def _print_changes(changes: RunChanges, zone: ZoneInfo) -> None:
    tell = partial(format_both, zone=zone)
    added = [(f"+ {tell(at)}", "green") for at in changes.added]
    removed = [(f"- {tell(at)}", "red") for at in changes.removed]
    moved = [
        (f"~ {tell(each.was)} moves to {tell(each.is_now)}", "yellow")
        for each in changes.moved
    ]
    if not (added or removed or moved):
        out().say(f"Nothing changes until {format_both(changes.until, zone)}.")
    for lines, word in ((added, "added"), (removed, "removed"), (moved, "moved")):
        for line, style in lines[:_LISTED]:
            out().print(Text(line, style=style))
        if len(lines) > _LISTED:
            out().say(f"  and {len(lines) - _LISTED:,} more {word}")
