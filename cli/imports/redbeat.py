"""``import redbeat``: the entries that redbeat keeps in Redis."""

from __future__ import annotations

from typing import Annotated

import typer

from actions.importing.origins.imported import import_each
from actions.importing.origins.redbeat import fill_from_redbeat
from actions.importing.readers.redbeat_keys import read_redbeat
from actions.importing.report import Report
from cli.imports.showing import (
    ConnectionOption,
    OutOption,
    OverwriteOption,
    QueueOption,
    TimezoneOption,
    UrlArgument,
    make_defaults,
    show,
)
from cli.options import JsonOption


def import_redbeat(  # noqa: PLR0913 - the options of the command
    url: UrlArgument,
    *,
    prefix: Annotated[
        str,
        typer.Option(
            "--prefix", metavar="TEXT", help="Of its keys: its redbeat_key_prefix."
        ),
    ] = "redbeat:",
    folder: OutOption = None,
    overwrite: OverwriteOption = False,
    timezone: TimezoneOption = None,
    queue: QueueOption = None,
    connection: ConnectionOption = None,
    json: JsonOption = False,
) -> None:
    """
    Turn the entries of redbeat into actions.

    URL is that of the Redis that has them, its redbeat_redis_url; it is only read.
    """
    defaults = make_defaults(timezone, queue, connection)
    entries = read_redbeat(url, prefix=prefix)
    found = import_each(entries, lambda entry: entry.title, fill_from_redbeat, defaults)
    hint = f"No key begins with {prefix!r}: --prefix is that of the application."
    report = Report("redbeat", found, if_empty=hint)
    show(report, folder=folder, overwrite=overwrite, json=json)
