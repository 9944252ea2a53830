"""The command ``apps export``."""

from __future__ import annotations

from actions.small_apps.export import fetch_document
from cli.connection import read_database
from cli.options import AppArgument
from cli.output import print_json


def export_app(
    uid: AppArgument,
) -> None:
    """
    Print the whole document of a small app, as apps apply takes it.

    It has all that admins wrote: keys in the addresses of sources, too.
    """
    with read_database() as connection:
        print_json(fetch_document(connection, uid))
