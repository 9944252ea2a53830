"""``events send``: records events that happened to users."""

from __future__ import annotations

from typing import Annotated

from actions.receive_events import receive_events
from cli.connection import change_database
from cli.options import (
    app_option,
    argument,
    option,
    read_instant,
    reading_document,
    takes,
    takes_json,
    value,
)
from cli.output import out
from models.door.documents import read_event_object, read_events
from models.errors import UsageError
from models.event import CloudEventModel, UserEventModel
from models.fields.instants import format_instant


def _read(
    file: Annotated[
        str | None,
        argument(
            "FILE|-",
            "JSON: one event, a list, or one event per line; - is standard input.",
        ),
    ] = None,
    *,
    event: str | None = value(
        "--event", "Such as instance.user.last_seen, or app.<name>."
    ),
    user: Annotated[str | None, option("--user ID", "Id of the user.")] = None,
    at: str | None = value("--at TIME", "When it happened; default: now."),
    key: str | None = value(
        "--key", "Makes the call repeatable: the same key is the same event."
    ),
) -> tuple[UserEventModel | CloudEventModel, ...]:
    """Return the events of *file*, or the one that the options describe."""
    given = {"event": event, "user": user, "at": at, "key": key}
    said = {name: value for name, value in given.items() if value is not None}
    if file is None:
        return (_read_options(said),)
    if said:
        raise UsageError(
            "Give either FILE, or --event and --user (with --at and --key if you"
            " like); not both."
        )
    with reading_document(file) as text:
        return read_events(text)


def _read_options(said: dict[str, str]) -> UserEventModel:
    if not {"event", "user"} <= said.keys():
        msg = "Say what happened to whom: give --event and --user, or a FILE."
        raise UsageError(msg)
    if "at" in said:
        said["at"] = format_instant(read_instant("--at", said["at"]))
    return read_event_object(said)


@takes_json
@takes("sent", _read)
def send(
    *,
    app: Annotated[str, app_option("Small app that the users belong to.")],
    sent: tuple[UserEventModel | CloudEventModel, ...],
) -> None:
    """
    Record events that happened to users.

    Give a FILE, or --event and --user. An event that is known already changes nothing;
    one that is yet to come is refused.
    """
    received = change_database(
        receive_events, app, sent, is_list=len(sent) != 1, places_users=False
    )
    counts = {"received": received.received, "recorded": received.recorded}
    if not out().gave_json(counts):
        known = received.received - received.recorded
        also = f"; {known:,} changed nothing" if known else ""
        out().say(f"Recorded {received.recorded:,} of {received.received:,}{also}.")
