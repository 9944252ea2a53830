"""Options and arguments that several commands share, and the parsing of their texts."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from cli.completing import complete_action, complete_app, complete_operation
from models.database.engine import read_host_clock
from models.errors import RuleError, UsageError
from models.fields.duration import Duration
from models.fields.instants import format_instant
from models.fields.typed_instants import parse_typed_instant
from models.operation_state import OperationState, Queue, Reason

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table.")
]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="UID",
        help="Uid of a small app.",
        autocompletion=complete_app,
    ),
]
AppArgument = Annotated[
    str,
    typer.Argument(
        metavar="APP", help="Uid of a small app.", autocompletion=complete_app
    ),
]
ActionArgument = Annotated[
    str,
    typer.Argument(
        metavar="ACTION",
        help="Uid of an action, or its name.",
        autocompletion=complete_action,
    ),
]
OperationArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Id of an operation, or its first digits.",
        autocompletion=complete_operation,
    ),
]
OptionalOperation = Annotated[
    str | None,
    typer.Argument(
        metavar="ID",
        help="Id of one operation (its first digits), instead of filters.",
        autocompletion=complete_operation,
    ),
]
ActionOption = Annotated[
    str | None,
    typer.Option(
        "--action",
        metavar="ACTION",
        help="Uid of an action, or its name.",
        autocompletion=complete_action,
    ),
]
OccurrencesFromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Only occurrences at or after this."),
]
OccurrencesUntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only occurrences before this."),
]
StatesOption = Annotated[
    list[OperationState] | None,
    typer.Option("--state", help="Only operations in this state; may be repeated."),
]
ReasonOption = Annotated[
    Reason | None, typer.Option("--reason", help="Only operations with this reason.")
]
QueueOption = Annotated[
    Queue | None, typer.Option("--queue", help="Only operations of this queue.")
]
NoteOption = Annotated[
    str | None,
    typer.Option("--note", metavar="TEXT", help="Why; shown wherever the pause is."),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="When the pause ends by itself."),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="All of them, instead of filters.")
]


def read_instant(option: str, text: str) -> datetime:
    """
    Return the instant that *text* names by the clock of this host, aware UTC.

    Raises:
        UsageError: *text* is not an instant; the message says what *option* takes.
    """
    return _read_instant(option, text, read_host_clock())


def _read_instant(option: str, text: str, now: datetime) -> datetime:
    try:
        return parse_typed_instant(text, now=now)
    except RuleError as error:
        msg = f"{option}: {error}"
        raise UsageError(msg) from None


def read_optional_instant(option: str, text: str | None) -> datetime | None:
    """Return the instant that *text* names, or None if there is no text."""
    return None if text is None else read_instant(option, text)


def read_elapsed(option: str, text: str) -> timedelta:
    """
    Return the duration that *text* names, which has no months or years.

    Raises:
        UsageError: *text* is not such a duration; the message says what *option* takes.
    """
    try:
        duration = Duration.parse(text)
    except RuleError as error:
        msg = f"{option}: {error}"
        raise UsageError(msg) from None
    if duration.months:
        msg = f"{option}: {text!r} has months, which differ. Count in days: P30D."
        raise UsageError(msg)
    return duration.elapsed


def read_period(
    since: str | None, until: str | None
) -> tuple[datetime | None, datetime | None]:
    """
    Return the instants that ``--from`` (inclusive) and ``--until`` (exclusive) name.

    Raises:
        UsageError: One of them is not an instant, or --from is not before --until.
    """
    now = read_host_clock()  # once: "now" is the same instant in both
    begin = None if since is None else _read_instant("--from", since, now)
    end = None if until is None else _read_instant("--until", until, now)
    if begin is None or end is None or begin < end:
        return begin, end
    if begin == end:
        msg = (
            f"--from {since} and --until {until} are the same instant,"
            f" {format_instant(end)}, so nothing lies between them. Give a later"
            " --until."
        )
    else:
        msg = (
            f"--from {_echo(since, begin)} is later than --until {_echo(until, end)}."
            " Swap the two."
        )
    raise UsageError(msg)


def _echo(text: str | None, instant: datetime) -> str:
    """Return a bound as it was written, and in UTC if that is another text."""
    in_utc = format_instant(instant)
    return str(text) if str(text).endswith("Z") else f"{text} ({in_utc})"


def read_file(name: str) -> bytes:
    """
    Return the contents of the file *name*; "-" is standard input.

    Raises:
        UsageError: The file cannot be read.
    """
    try:
        if name == "-":
            return sys.stdin.buffer.read()
        return Path(name).read_bytes()
    except OSError as error:
        msg = f"{name}: {error.strerror or error}"
        raise UsageError(msg) from None
