"""The command ``apps delete``."""

from __future__ import annotations

import typer

from actions.small_apps.delete import delete_small_app
from cli.confirming import YesOption, confirm
from cli.connection import get_actor, read_database, write_database
from cli.options import AppArgument, JsonOption
from cli.output import out, print_json, print_note
from overview.apps.shown import fetch_detailed_app


def delete_app(
    uid: AppArgument,
    *,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Delete a small app: its actions and API keys end; its history is kept.

    Refused while operations of it are not over. Its uid stays taken; apps apply of its
    document brings it back with its users and data, but without its actions and keys.
    """
    with read_database() as connection:
        found = fetch_detailed_app(connection, uid)
    if not confirm(f"Delete small app {found.uid!r}", yes=yes):
        print_note("Nothing was deleted.")
        raise typer.Exit(1)
    with write_database() as connection:
        deleted = delete_small_app(connection, uid, by=get_actor())
    if json:
        print_json(deleted)
    else:
        out().print(
            f"Deleted small app {uid}, with {deleted.actions:,} actions and"
            f" {deleted.keys:,} keys.",
            markup=False,
        )
