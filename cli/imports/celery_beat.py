"""``import celery-beat``: the beat_schedule of a Celery application."""

from __future__ import annotations

from typing import Annotated

import typer

from actions.importing.origins.celery_beat import fill_from_beat
from actions.importing.origins.imported import import_each
from actions.importing.readers.celery_module import read_beat_schedule
from actions.importing.report import Report
from cli.imports.showing import (
    ConnectionOption,
    OutOption,
    OverwriteOption,
    QueueOption,
    TimezoneOption,
    make_defaults,
    show,
)
from cli.options import JsonOption


def import_celery_beat(  # noqa: PLR0913 - the options of the command
    module: Annotated[
        str,
        typer.Argument(
            metavar="MODULE", help="The application, as for celery -A: proj.celery."
        ),
    ],
    *,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            metavar="PATH",
            help="Python of the project's environment; default: Minutehand's own.",
        ),
    ] = None,
    folder: OutOption = None,
    overwrite: OverwriteOption = False,
    timezone: TimezoneOption = None,
    queue: QueueOption = None,
    connection: ConnectionOption = None,
    json: JsonOption = False,
) -> None:
    """
    Turn the beat_schedule of a Celery application into actions.

    The module is imported in a process of its own, from the working directory.
    """
    defaults = make_defaults(timezone, queue, connection)
    entries = read_beat_schedule(module, python=python)
    found = import_each(entries, lambda entry: entry.name, fill_from_beat, defaults)
    report = Report("celery beat", found)
    show(report, folder=folder, overwrite=overwrite, json=json)
