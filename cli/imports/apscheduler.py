"""``import apscheduler``: the jobs of APScheduler 3 in a database."""

from __future__ import annotations

from typing import Annotated

import typer

from actions.importing.origins.apscheduler import fill_from_job
from actions.importing.origins.imported import import_each
from actions.importing.readers.apscheduler_jobs import read_jobs
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

_NOTE = (
    "Each function becomes a task of its own name, with a dot for the colon: register"
    " it in your Celery application (docs/coming-from-apscheduler.md)."
)


def import_apscheduler(  # noqa: PLR0913 - the options of the command
    url: UrlArgument,
    *,
    table: Annotated[
        str,
        typer.Option("--table", metavar="NAME", help="Of the job store."),
    ] = "apscheduler_jobs",
    folder: OutOption = None,
    overwrite: OverwriteOption = False,
    timezone: TimezoneOption = None,
    queue: QueueOption = None,
    connection: ConnectionOption = None,
    json: JsonOption = False,
) -> None:
    """
    Turn the jobs of APScheduler 3 into actions.

    URL is that of its SQLAlchemyJobStore; it is only read, and no job is unpickled.
    """
    defaults = make_defaults(timezone, queue, connection)
    entries = read_jobs(url, table=table)
    found = import_each(entries, lambda entry: entry.title, fill_from_job, defaults)
    report = Report("APScheduler", found, (_NOTE,))
    show(report, folder=folder, overwrite=overwrite, json=json)
