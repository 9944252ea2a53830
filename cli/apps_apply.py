"""The command ``apps apply``: it alone reads mail templates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from actions.small_apps.app_row import PartChange
from actions.small_apps.apply import Applied, ApplyTerms, apply_small_app
from actions.small_apps.check_settings import check_settings
from actions.small_apps.differences import AppDifference, foresee_apply
from cli.connection import change_database, get_actor, get_settings, use_engine
from cli.options import argument, flag, reading_document, takes_json
from cli.output import err, out
from models.door.app_documents import read_small_app

#: The document in a directory.
_FILE = "app.json"


@takes_json
def apply_apps(
    path: Annotated[
        str,
        argument(
            "FILE|DIR",
            "app.json, a directory that contains it, or - for standard input.",
        ),
    ],
    *,
    raise_events: bool = flag(
        "--raise-events",
        "Record the events of users who are new, newly activated or seen"
        " more recently.",
    ),
    dry_run: bool = flag("--dry-run", "Change nothing; show what would be changed."),
) -> None:
    """
    Create or update a small app from its document.

    Parts that the document leaves out stay as they are. A part that is present is
    complete: users, domains and templates that it no longer lists are removed. The
    files of sources are below DIR; with FILE, the folder of the app does not change.
    """
    # The directory that the operator named, whatever app.json inside it is or says: a
    # tenant may write that file, and has no say in which folder this is.
    folder = Path(path) if path != "-" and Path(path).is_dir() else None
    name = path if folder is None else str(folder / _FILE)
    with reading_document(name) as text:
        model = read_small_app(text)
    known = get_settings()
    for doubt in check_settings(
        model,
        known.sql_connections,
        known.mail_sender_hosts,
        known.webhook_allowed_hosts,
    ):
        err().warn(str(doubt))
    terms = ApplyTerms(folder, raise_events, get_actor())
    if dry_run:
        with use_engine() as engine:
            difference = foresee_apply(engine, model, terms)
        out().found(difference, _print_difference)
        return
    out().found(change_database(apply_small_app, model, terms), _print)


def _print(applied: Applied) -> None:
    verb = "Created" if applied.created else "Updated"
    out().say(f"{verb} small app {applied.uid}.")
    for part, change in applied.parts.items():
        out().say(f"  {part}: {_count(change)}")
    if applied.events:
        out().say(f"  events: {applied.events:,} recorded")
    for uid in applied.retimed:
        out().say(f"  action {uid}: has new dates")


def _count(change: PartChange) -> str:
    told = [
        f"{count:,} {word}"
        for count, word in (
            (change.added, "added"),
            (change.changed, "changed"),
            (change.removed, "removed"),
        )
        if count
    ]
    return ", ".join(told) or "unchanged"


#: How each entry of a difference begins.
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


def _print_difference(difference: AppDifference) -> None:
    verb = "created" if difference.created else "updated"
    if not (difference.created or difference.counts):
        out().say(f"Small app {difference.uid} would not change.")
        return
    out().say(f"Small app {difference.uid} would be {verb}.")
    for part, change in difference.counts.items():
        out().say(f"  {part}: {_count(change)}")
        for entry in difference.entries:
            if entry.part == part:
                where = f" ({', '.join(entry.pointers)})" if entry.pointers else ""
                out().say(f"    {_SIGNS[entry.change]} {entry.name}{where}")
    if difference.unlisted:
        out().say(f"  {difference.unlisted:,} more are not listed.")
    if difference.events:
        out().say(f"  events: {difference.events:,} would be recorded")
    for uid in difference.retimed:
        out().say(f"  action {uid}: would have new dates")
