"""``import crontab``: the lines of a crontab file."""

from __future__ import annotations

from typing import Annotated

import typer

from actions.importing.origins.crontab import (
    explain_settings,
    fill_from_crontab,
    has_users,
    read_crontab,
)
from actions.importing.origins.imported import import_each
from actions.importing.report import Report
from cli.imports.showing import (
    ConnectionOption,
    FileArgument,
    OutOption,
    OverwriteOption,
    QueueOption,
    TimezoneOption,
    make_defaults,
    show,
)
from cli.options import JsonOption, read_file
from models.errors import UsageError

_NOTE = (
    "Each action sends the task {task!r} with the command as an argument:"
    " docs/coming-from-crontab.md has a task that runs it. Lines without CRON_TZ are"
    " read in {zone}; cron reads them in the zone of its host (--timezone)."
)


def import_crontab(  # noqa: PLR0913 - the options of the command
    file: FileArgument,
    *,
    system: Annotated[
        bool,
        typer.Option(
            "--system", help="Lines have a user, as in /etc/crontab; else: found out."
        ),
    ] = False,
    personal: Annotated[
        bool, typer.Option("--personal", help="Lines have no user; else: found out.")
    ] = False,
    task: Annotated[
        str, typer.Option("--task", metavar="TASK", help="What runs a command.")
    ] = "run_command",
    folder: OutOption = None,
    overwrite: OverwriteOption = False,
    timezone: TimezoneOption = None,
    queue: QueueOption = None,
    connection: ConnectionOption = None,
    json: JsonOption = False,
) -> None:
    """
    Turn the lines of a crontab file into actions.

    FILE is what crontab -l prints, /etc/crontab, or a file of /etc/cron.d.
    """
    defaults = make_defaults(timezone, queue, connection, task=task)
    text = read_file(file).decode("utf-8-sig", errors="replace")
    if system and personal:
        raise UsageError("--system and --personal: lines have a user, or have none.")
    has_user = system or (not personal and has_users(text))
    found = import_each(
        read_crontab(text, has_user=has_user),
        lambda line: line.title,
        fill_from_crontab,
        defaults,
    )
    note = _NOTE.format(task=task, zone=defaults.timezone)
    report = Report("crontab", found, (note, *explain_settings(text)))
    show(report, folder=folder, overwrite=overwrite, json=json)
