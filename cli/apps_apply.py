"""``apps apply``: make small apps what their documents say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actions.small_apps import Applied, apply_small_app
from cli.connection import get_actor, write_database
from cli.options import JsonOption, read_file
from cli.output import out, print_json
from models.door import read_small_app

#: The document in a directory.
_FILE = "app.json"


def apply_apps(
    path: Annotated[
        str,
        typer.Argument(
            metavar="FILE|DIR",
            help="app.json, a directory that holds it, or - for standard input.",
        ),
    ],
    *,
    raise_events: Annotated[
        bool,
        typer.Option(
            "--raise-events",
            help="Record events for users who are new, activated or seen since.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Make small apps what their documents say.

    Parts that the document leaves out stay as they are. A part that is there is the
    whole of it: users, domains and templates it no longer lists are removed.
    Relative paths of files are relative to the document.
    """
    name = str(Path(path) / _FILE) if path != "-" and Path(path).is_dir() else path
    model = read_small_app(read_file(name))
    folder = Path.cwd() if name == "-" else Path(name).absolute().parent
    with write_database() as connection:
        applied = apply_small_app(
            connection,
            model,
            folder=folder,
            raise_events=raise_events,
            by=get_actor(),
        )
    if json:
        print_json(applied.as_json())
    else:
        _print(applied)


def _print(applied: Applied) -> None:
    verb = "Made" if applied.created else "Applied"
    out().print(f"{verb} small app {applied.uid}.", markup=False)
    for part, change in applied.parts.items():
        told = [
            f"{count:,} {word}"
            for count, word in (
                (change.added, "added"),
                (change.changed, "changed"),
                (change.removed, "removed"),
            )
            if count
        ]
        out().print(f"  {part}: {', '.join(told) or 'as they were'}", markup=False)
    if applied.events:
        out().print(f"  events: {applied.events:,} recorded")
    for uid in applied.retimed:
        out().print(f"  action {uid}: has new dates", markup=False)
