"""What all commands of ``import`` share: options, and how their report looks."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from actions.importing.files import write_files
from actions.importing.origins.imported import Defaults, Imported, Verdict
from actions.importing.report import Report
from cli.connection import get_settings
from cli.output import err, out, print_json, print_note, print_warning
from models.database.engine import read_host_clock
from models.errors import RuleError, UsageError
from models.fields.zone import load_zone

#: Celery's own name of its default queue.
_CELERY_QUEUE = "celery"

_WORDS = {
    Verdict.EXACT: ("exact", "green"),
    Verdict.DIFFERS: ("differs", "yellow"),
    Verdict.CANNOT_BE: ("cannot be", "red"),
}

#: Letters before a name and its notes: those of the longest verdict, and two spaces.
_INDENT = 11

#: Columns of text; longer lines are hard to read, however wide the terminal is.
_WIDEST = 100

OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Write one file for each action there; else JSON on standard output.",
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that are there.")
]
TimezoneOption = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        metavar="ZONE",
        help="Zone of entries that name none; default: MINUTEHAND_TIMEZONE.",
    ),
]
QueueOption = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="QUEUE",
        help="Queue of tasks that name none; default: MINUTEHAND_TASK_QUEUE or celery.",
    ),
]
ConnectionOption = Annotated[
    str | None,
    typer.Option(
        "--connection",
        metavar="NAME",
        help="Broker of the tasks, one of MINUTEHAND_TASK_CONNECTIONS.",
    ),
]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="Where it keeps them.")]
FileArgument = Annotated[
    str, typer.Argument(metavar="FILE|-", help="The file; - is standard input.")
]


def make_defaults(
    timezone: str | None, queue: str | None, connection: str | None, *, task: str = ""
) -> Defaults:
    """
    Return what the options of a command leave to entries.

    Raises:
        UsageError: If there is no such zone or connection.
    """
    settings = get_settings()
    if timezone is not None:
        try:
            load_zone(timezone)
        except RuleError as error:
            msg = f"--timezone: {error}"
            raise UsageError(msg) from None
    if connection is not None:
        try:
            settings.task_rules.check_connection(connection)
        except RuleError as error:
            msg = f"--connection: {error}"
            raise UsageError(msg) from None
    return Defaults(
        now=read_host_clock(),
        timezone=timezone or settings.timezone,
        queue=queue or settings.task_queue or _CELERY_QUEUE,
        connection=connection,
        task=task,
    )


def show(report: Report, *, folder: str | None, overwrite: bool, json: bool) -> None:
    """
    Write the documents and show the report; end with 1 if an entry cannot be.

    Args:
        report: What became of all entries.
        folder: For one file each. None: they are one JSON list on standard output, and
            the report is on standard error.
        overwrite: Whether files may be replaced.
        json: Show the report, with the documents, as JSON on standard output.
    """
    written = None
    if folder is not None:
        written = write_files(Path(folder), report.entries, overwrite=overwrite)
    if json:
        print_json(report.as_json())
    elif folder is None:
        print_json(report.documents)
        _print(report, err())
    else:
        _print(report, out())
    if written is not None:
        noun = "document" if written == 1 else "documents"
        print_note(f"Wrote {written:,} {noun} to {folder}.")
    for obstacle in report.find_obstacles(get_settings().task_rules):
        print_warning(obstacle)
    if not report.entries:
        print_warning(f"Nothing was found to import. {report.if_empty}".rstrip())
    if report.count(Verdict.CANNOT_BE):
        raise typer.Exit(1)


def _print(report: Report, console: Console) -> None:
    """Print a block for each entry, as wide as the terminal."""
    width = min(console.width, _WIDEST)
    for entry in report.entries:
        _print_entry(entry, console, width)
    for note in report.notes if report.entries else ():
        _print_text(console, note, width, indent="")
    if report.entries:
        console.print()
    counts = [f"{report.count(each)} {_WORDS[each][0]}" for each in Verdict]
    console.print(
        Text(f"{len(report.entries)} of {report.origin}: {', '.join(counts)}.")
    )


def _print_entry(entry: Imported, console: Console, width: int) -> None:
    word, style = _WORDS[entry.verdict]
    head = Text(f"{word:<{_INDENT}}", style=style)
    console.print(head.append(_cut(entry.entry, width), style="bold"))
    indent = " " * _INDENT
    if entry.rule:
        _print_text(console, entry.rule, width, indent=indent)
    for note in entry.notes:
        _print_text(console, note, width, indent=f"{indent}- ")


def _print_text(console: Console, text: str, width: int, *, indent: str) -> None:
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_on_hyphens=False,  # names of files are pasted
    )
    for line in lines or [""]:
        console.print(Text(line), soft_wrap=True)


def _cut(text: str, width: int) -> str:
    line = " ".join(text.split())
    room = width - _INDENT
    return line if len(line) <= room else line[: room - 1] + "…"
