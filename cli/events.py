"""``events send``: tell what happened to users."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated

import typer

from actions.listing import fetch_app
from actions.user_events import NewEvent, record_events
from cli.connection import write_database
from cli.options import JsonOption, read_file
from cli.output import out, print_json, print_warning
from models.database.engine import read_clock
from models.door.documents import read_event_object, read_events
from models.errors import UsageError
from models.event import UserEventModel
from models.fields.instants import format_instant
from models.words import format_age

#: An event may be this much later than the database's clock: clocks differ.
_TOLERATED = timedelta(minutes=5)

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
    new = [
        NewEvent(app=app, name=each.event, user_id=each.user, at=each.at, key=each.key)
        for each in models
    ]
    with write_database() as connection:
        fetch_app(connection, app)
        recorded = record_events(connection, new, correct=correct)
        now = read_clock(connection)
    if json:
        print_json({"received": len(new), "recorded": recorded})
    else:
        known = len(new) - recorded
        also = f"; {known:,} changed nothing" if known else ""
        out().print(f"Recorded {recorded:,} of {len(new):,}{also}.")
    _warn_of_future(new, now)


def _warn_of_future(new: Sequence[NewEvent], now: datetime) -> None:
    """Name events that are yet to come; they are recorded, for clocks may differ."""
    early = [
        (place, event.at)
        for place, event in enumerate(new)
        if event.at is not None and event.at > now + _TOLERATED
    ]
    for place, at in early[:_MOST]:
        pointer = "/at" if len(new) == 1 else f"/{place}/at"
        print_warning(
            f"{pointer}: {format_instant(at)} is {format_age(at - now)} from now."
            " If that is wrong, send the right instant with --correct."
        )
    if len(early) > _MOST:
        print_warning(f"{len(early) - _MOST:,} more are yet to come.")


def _read_options(**given: str | None) -> UserEventModel:
    if given["event"] is None or given["user"] is None:
        msg = "say what happened to whom: --event and --user, or a FILE"
        raise UsageError(msg)
    return read_event_object({k: v for k, v in given.items() if v is not None})
