"""``actions apply``, which makes actions what a folder says, and ``actions delete``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from rich.text import Text

from actions.lookup import SYSTEM_APP, fetch_app, find_action
from actions.posting.apply import (
    AppliedEntry,
    AppliedFolder,
    Document,
    FileChange,
    apply_actions,
    read_documents,
)
from actions.posting.changes import CountedChanges
from actions.posting.edit import MOST_ACTIONS
from actions.posting.post import delete_action
from actions.posting.revisions import refuse_action
from cli.actions_post import NOTHING_STORED, make_terms, warn_of_many
from cli.connection import ask_database, get_actor, read_database, write_database
from cli.options import (
    AllOption,
    AppOption,
    DryRunOption,
    OwnerOption,
    YesOption,
    argument,
    confirm_change_of_many,
    flag,
    read_file,
    takes_json,
)
from cli.output import err, format_both, out
from models.errors import UsageError
from overview.actions import (
    ShownAction,
    describe_deletion,
    fetch_listed_actions,
    fetch_shown_action,
)

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


@takes_json
def apply(
    folder: Annotated[
        str,
        argument(
            "DIR", "A folder with one action in each *.json; app.json is left out."
        ),
    ],
    *,
    app: OwnerOption,
    prune: bool = flag("--prune", "Delete the app's actions that have no file."),
    dry_run: bool = flag("--dry-run", "Show the plan; change nothing."),
    yes: YesOption = False,
) -> None:
    """
    Make the actions of a small app what a folder says.

    An action is found by its uid, or else by its name; what does not differ is left
    alone. If one file is refused, nothing is changed.
    """
    texts = _read_folder(folder, app)
    documents = read_documents(texts, ask_database(make_terms().find_reading, app))
    pruned: bool | frozenset[str] = prune
    if prune and not (dry_run or yes):
        planned = _apply(app, documents, prune=True, dry_run=True)
        pruned = planned.pruned
        _ask(planned, folder)
    applied = _apply(app, documents, pruned, dry_run).judge()
    out().found(applied, _print)
    _warn(applied, folder)


def _read_folder(folder: str, app: str) -> dict[str, bytes]:
    """
    Return what the files of *folder* say, by name.

    Raises:
        UsageError: It is not a folder, or has no files.
    """
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(
            f"{folder} is not a folder. For a file: minutehand actions post FILE"
            " --app APP"
        )
    paths = sorted(path for path in place.glob("*.json") if path.name != _APP_FILE)
    if not paths:
        raise UsageError(
            f"{folder} has no *.json with an action, and nothing is deleted for that."
            f" To delete all actions: minutehand actions delete --all --app {app}"
        )
    if len(paths) > MOST_ACTIONS:
        msg = f"{folder} has {len(paths):,} files; at most {MOST_ACTIONS:,} are read."
        raise UsageError(msg)
    for path in paths:
        if not path.is_file():  # a pipe would never end
            raise UsageError(f"{path} is not a file.")
    return {path.name: read_file(str(path)) for path in paths}


def _apply(
    app: str,
    documents: tuple[Document, ...],
    prune: bool | frozenset[str],  # noqa: FBT001 - as the options of the command
    dry_run: bool,  # noqa: FBT001
) -> AppliedFolder:
    with write_database() as connection:
        return apply_actions(
            connection, app, documents, make_terms(), prune=prune, dry_run=dry_run
        )


def _ask(planned: AppliedFolder, folder: str) -> None:
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
        if each.runs is not None and (said := _format_runs(each.runs, each.zone)):
            out().print(f"            {said}", markup=False)
    counts = ", ".join(
        f"{count:,} {change}" for change, count in applied.counts.items() if count
    )
    out().say(f"{'Would be' if applied.dry_run else 'Applied'}: {counts}.")


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
        line.append(f"  next {format_both(entry.next[0], entry.zone)}", style="default")
    return line


def _format_runs(runs: CountedChanges, zone: ZoneInfo | None) -> str:
    """Say what becomes of the runs that are to come; nothing if nothing does."""
    first = {
        "added": [f"from {format_both(at, zone)} on" for at in runs.added],
        "removed": [f"from {format_both(at, zone)} on" for at in runs.removed],
        "moved": [
            f"the first from {format_both(each.was, zone)}"
            f" to {format_both(each.is_now, zone)}"
            for each in runs.moved
        ],
    }
    said = [
        f"{count:,} {kind}, {first[kind][0]}"
        for kind, count in runs.counts.items()
        if count
    ]
    return f"runs until {runs.until:%Y-%m-%d}: {'; '.join(said)}" if said else ""


def _warn(applied: AppliedFolder, folder: str) -> None:
    """Say what will not run, what may be a mistake, and what was left alone."""
    superseded = sum(len(each.superseded) for each in applied.items)
    doubts = [each.placed for each in applied.warnings]
    warn_of_many(superseded, doubts, may_be_more=applied.more_warnings)
    if applied.unlisted:
        err().say(
            f"{_list(applied.unlisted)} of {applied.app!r} have no file in {folder},"
            " and stay. --prune deletes them, and their uids can never be used again."
        )
    if applied.dry_run:
        err().say(NOTHING_STORED)


@takes_json
def delete(
    actions: Annotated[
        list[str] | None, argument("ACTION...", "Uids of actions, or their names.")
    ] = None,
    *,
    app: AppOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """
    Delete scheduled actions; their history is kept.

    Their waiting operations are canceled when a worker takes them. All are deleted, or
    none.
    """
    found = _find(actions or [], app=app, everything=everything)
    if not found:
        err().say("There is nothing to delete.")
        return
    if dry_run:
        err().say(f"{len(found):,} would be deleted. Nothing was changed (--dry-run).")
    else:
        confirm_change_of_many(ask_database(describe_deletion, found), yes=yes)
        with write_database() as connection:
            for each in found:
                delete_action(connection, each.uid, app=each.app, by=get_actor())
            found = [fetch_shown_action(connection, each.uid) for each in found]
    one = actions is not None and len(actions) == 1
    if out().gave_json(found[0] if one else found):
        return
    verb = "Would delete" if dry_run else "Deleted"
    for each in found:
        out().say(f"{verb} {each.name} (uid {each.uid}).")


def _find(given: list[str], *, app: str | None, everything: bool) -> list[ShownAction]:
    """
    Return what somebody wants to delete, each once.

    Raises:
        UsageError: Neither actions nor ``--all`` with ``--app`` are given, or both.
    """
    if everything == bool(given) or (everything and app is None):
        msg = "Name the actions to delete, or all of an app: --all --app APP."
        raise UsageError(msg)
    if everything and app == SYSTEM_APP:
        raise UsageError(
            f"the actions of {SYSTEM_APP!r} are the scheduler's own. Name one of them."
        )
    with read_database() as connection:
        if app is not None and everything:
            fetch_app(connection, app)
            return [*fetch_listed_actions(connection, app=app)]
        rows = [find_action(connection, each, app=app) for each in given]
        for row in rows:
            if row.deleted_at is not None:
                refuse_action(row.uid)
        uids = dict.fromkeys(row.uid for row in rows)
        return [fetch_shown_action(connection, uid) for uid in uids]
