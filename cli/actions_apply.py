"""``actions apply``: makes the actions of an app what a folder says, after a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from actions.lookup import fetch_app
from actions.posting.applied import (
    AppliedActions,
    AppliedEntry,
    AppliedFolder,
    Document,
    FileChange,
)
from actions.posting.apply import apply_actions, read_documents
from actions.posting.edit import MOST_ACTIONS
from actions.posting.post import Posting
from cli.confirming import YesOption, confirm_change_of_many
from cli.connection import get_actor, get_settings, read_database, write_database
from cli.options import JsonOption, read_file
from cli.output import (
    format_both,
    out,
    print_doubts,
    print_json,
    print_note,
    print_warning,
)
from models.errors import UsageError

#: The document of a small app, which may be in the same folder.
_APP_FILE = "app.json"

#: Names of actions that a question or a note lists.
_NAMED = 5

_STYLES = {
    FileChange.CREATED: ("+", "green"),
    FileChange.CHANGED: ("~", "yellow"),
    FileChange.UNCHANGED: ("=", "bright_black"),
    FileChange.PRUNED: ("-", "red"),
}


def apply(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="A folder with one action in each *.json; app.json is left out.",
        ),
    ],
    *,
    app: Annotated[
        str,
        typer.Option(
            "--app", metavar="UID", help="Small app that the actions belong to."
        ),
    ],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete the app's actions that have no file."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan; change nothing.")
    ] = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Make the actions of a small app what a folder says.

    An action is found by its uid, or else by its name; what does not differ is left
    alone. If one file is refused, nothing is changed.
    """
    texts = _read_folder(folder, app)
    settings = get_settings()
    with read_database() as connection:
        zone = fetch_app(connection, app).timezone or settings.timezone
    documents = read_documents(
        texts, default_timezone=zone, task_rules=settings.make_task_rules(app)
    )
    pruned: bool | frozenset[str] = prune
    if prune and not (dry_run or yes):
        planned = _apply(app, documents, prune=True, dry_run=True)
        pruned = planned.pruned
        _ask(planned, folder)
    applied = _apply(app, documents, pruned, dry_run).judge()
    if json:
        print_json(applied)
    else:
        _print(applied)
    _warn(applied, folder)


def _read_folder(folder: str, app: str) -> dict[str, bytes]:
    """
    Return what the files of *folder* say, by name.

    Raises:
        UsageError: It is not a folder, or has no files.
    """
    place = Path(folder)
    if not place.is_dir():
        msg = (
            f"{folder} is not a folder. For a file: minutehand actions post FILE"
            " --app APP"
        )
        raise UsageError(msg)
    paths = sorted(path for path in place.glob("*.json") if path.name != _APP_FILE)
    if not paths:
        msg = (
            f"{folder} has no *.json with an action, and nothing is deleted for that."
            f" To delete all actions: minutehand actions delete --all --app {app}"
        )
        raise UsageError(msg)
    if len(paths) > MOST_ACTIONS:
        msg = f"{folder} has {len(paths):,} files; at most {MOST_ACTIONS:,} are read."
        raise UsageError(msg)
    for path in paths:
        if not path.is_file():  # a pipe would never end
            msg = f"{path} is not a file."
            raise UsageError(msg)
    return {path.name: read_file(str(path)) for path in paths}


def _apply(
    app: str,
    documents: tuple[Document, ...],
    prune: bool | frozenset[str],  # noqa: FBT001 - as the options of the command
    dry_run: bool,  # noqa: FBT001
) -> AppliedActions:
    how = Posting(lookback=get_settings().lookback, by=get_actor())
    with write_database() as connection:
        return apply_actions(
            connection, app, documents, how, prune=prune, dry_run=dry_run
        )


def _ask(planned: AppliedActions, folder: str) -> None:
    """Ask before anything is deleted."""
    gone = [each.name for each in planned.items if each.change is FileChange.PRUNED]
    if gone:
        what = (
            f"Delete {_list(gone)} of {planned.app!r}, which {folder} does not have;"
            " a uid can never be used again"
        )
        confirm_change_of_many(what, yes=False)


def _list(names: list[str] | tuple[str, ...]) -> str:
    """Return how many actions there are, and the first of their names."""
    more = ", ..." if len(names) > _NAMED else ""
    listed = ", ".join(map(repr, names[:_NAMED]))
    noun = "action" if len(names) == 1 else "actions"
    return f"{len(names):,} {noun} ({listed}{more})"


def _print(applied: AppliedFolder) -> None:
    for each in applied.items:
        out().print(_format(each))
    counts = ", ".join(
        f"{count:,} {change}" for change, count in applied.counts.items() if count
    )
    out().print(f"{'Would be' if applied.dry_run else 'Applied'}: {counts}.")


def _format(entry: AppliedEntry) -> Text:
    """Return one line of the plan: what, which file, whose name, what differs."""
    sign, style = _STYLES[entry.change]
    line = Text(f"{sign} {entry.change:<9} ", style=style)
    line.append(entry.file or "(no file)", style="default")
    line.append(f"  {entry.name}", style="bold default")
    if entry.uid is not None and entry.change is not FileChange.UNCHANGED:
        line.append(f" (uid {entry.uid})", style="default")
    if entry.pointers:
        line.append(f"  {' '.join(entry.pointers)}", style="default")
    if entry.next:
        line.append(f"  next {format_both(entry.next[0])}", style="default")
    return line


def _warn(applied: AppliedFolder, folder: str) -> None:
    """Say what will not run, what may be a mistake, and what was left alone."""
    superseded = sum(len(each.superseded) for each in applied.items)
    if superseded:
        print_warning(
            f"{superseded:,} occurrences were due before this edit and will not run."
        )
    print_doubts([each.placed for each in applied.warnings])
    if applied.more_warnings:
        print_warning("There may be more warnings; these are the first.")
    if applied.unlisted:
        print_note(
            f"{_list(applied.unlisted)} of {applied.app!r} have no file in {folder},"
            " and stay. --prune deletes them, and their uids can never be used again."
        )
    if applied.dry_run:
        print_note("Nothing was stored (--dry-run).")
