"""``events send``: tell what happened to users."""

from __future__ import annotations

from typing import Annotated

import typer

from actions.user_events import Received, receive_events
from cli.connection import write_database
from cli.options import JsonOption, read_file
from cli.output import out, print_json, print_warning
from models.door.documents import read_event_object, read_events
from models.errors import UsageError
from models.event import UserEventModel
from models.fields.instants import format_instant
from models.units import format_age

#: Events that are warned of, one a line.
_MOST = 10


def send(  # noqa: PLR0913 - the options of the command
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|-]",
            help="JSON: an event, a list of them, or one on each line.",
        ),
    ] = None,
    *,
    app: Annotated[
        str, typer.Option("--app", metavar="UID", help="Small app of the users.")
    ],
    event: Annotated[
        str | None,
        typer.Option("--event", help="Such as instance.user.last_seen, or app.<name>."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Id of the user.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="When it happened; now if absent."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The same key is the same event, however often."),
    ] = None,
    correct: Annotated[
        bool,
        typer.Option(
            "--correct",
            help="A sign of life replaces a later one, which was wrong.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Tell what happened to users.

    Either a FILE, or --event and --user. An event that is known already changes
    nothing.
    """
    if file is not None:
        if (event, user, at, key) != (None,) * 4:
            msg = "give either FILE, or --event and --user with --at and --key"
            raise UsageError(msg)
        models = read_events(read_file(file))
    else:
        models = (_read_options(event=event, user=user, at=at, key=key),)
    with write_database() as connection:
        received = receive_events(connection, app, models, correct=correct)
    if json:
        print_json(received.as_json())
    else:
        known = received.received - received.recorded
        also = f"; {known:,} changed nothing" if known else ""
        out().print(f"Recorded {received.recorded:,} of {received.received:,}{also}.")
    _warn_of_future(received)


def _warn_of_future(received: Received) -> None:
    """Name events that are yet to come; they are recorded, for clocks may differ."""
    early = received.early
    for place, at in early[:_MOST]:
        pointer = "/at" if received.received == 1 else f"/{place}/at"
        age = format_age(at - received.now)
        print_warning(
            f"{pointer}: {format_instant(at)} is {age} from now."
            " If that is wrong, send the right instant with --correct."
        )
    if len(early) > _MOST:
        print_warning(f"{len(early) - _MOST:,} more are yet to come.")


def _read_options(**given: str | None) -> UserEventModel:
    if given["event"] is None or given["user"] is None:
        msg = "say what happened to whom: --event and --user, or a FILE"
        raise UsageError(msg)
    return read_event_object({k: v for k, v in given.items() if v is not None})
