"""``apps apply``: make small apps what their documents say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actions.tenants.apply import Applied, apply_small_app
from cli.connection import get_actor, get_settings, write_database
from cli.options import JsonOption, read_file
from cli.output import out, print_json, print_warning
from models.door.documents import read_small_app
from models.errors import InvalidDocumentError, Problem
from models.small_app import SmallAppModel

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
    Files of sources lie below DIR. FILE alone leaves the folder of the app as it is.
    """
    # Not of "app.json" in it: a tenant who may write that file has no say here.
    folder = Path(path) if path != "-" and Path(path).is_dir() else None
    name = path if folder is None else str(folder / _FILE)
    model = read_small_app(read_file(name))
    _check_connections(model)
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


def _check_connections(model: SmallAppModel) -> None:
    """Refuse or doubt connections; workers, whose settings count, look again."""
    known = get_settings().sql_connections
    problems = []
    for number, each in enumerate(model.domains or ()):
        name = each.source.connection
        if name is None:
            continue
        if name in known and not known[name].serves(model.uid):
            message = f"Small app {model.uid!r} may not use connection {name!r}."
            hint = "List it in 'apps' of the connection in MINUTEHAND_SQL_CONNECTIONS."
            pointer = f"/domains/{number}/source/connection"
            problems.append(Problem(pointer, message, hint))
        elif name not in known:
            print_warning(
                f"/domains/{number}/source/connection: {name!r} is not among "
                "MINUTEHAND_SQL_CONNECTIONS here; workers need it."
            )
    if problems:
        raise InvalidDocumentError(tuple(problems))


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
