"""What the operator lets a small app use: connections, and senders. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from models.errors import InvalidDocumentError, Problem
from models.fields.sql_connection import SqlConnection
from models.small_app import SmallAppModel


@dataclass(slots=True)
class ConnectionProblems:
    """
    What is wrong with the connections that the sources of a small app name.

    Args:
        refused: They do not serve this app.
        doubted: They are not known here; they may be to the workers.
    """

    refused: list[Problem] = field(default_factory=list)
    doubted: list[Problem] = field(default_factory=list)


def check_connections(
    model: SmallAppModel, known: Mapping[str, SqlConnection]
) -> list[Problem]:
    """
    Refuse connections that do not serve the app; return those that are not known here.

    Raises:
        InvalidDocumentError: With every connection that does not serve it.
    """
    found = find_connection_problems(model, known)
    if found.refused:
        raise InvalidDocumentError(tuple(found.refused))
    return found.doubted


def find_connection_problems(
    model: SmallAppModel, known: Mapping[str, SqlConnection]
) -> ConnectionProblems:
    """
    Return what is wrong with the connections that *model* names.

    Workers look again: their settings count.

    Args:
        known: Those in the settings of this process, by name.
    """
    found = ConnectionProblems()
    for number, each in enumerate(model.domains or ()):
        name = each.source.connection
        if name is None:
            continue
        pointer = f"/domains/{number}/source/connection"
        if name not in known:
            message = (
                f"{name!r} is not among MINUTEHAND_SQL_CONNECTIONS here; "
                "workers need it."
            )
            found.doubted.append(Problem(pointer, message, ""))
        elif not known[name].serves(model.uid):
            message = f"Small app {model.uid!r} may not use connection {name!r}."
            hint = "List it in 'apps' of the connection in MINUTEHAND_SQL_CONNECTIONS."
            found.refused.append(Problem(pointer, message, hint))
    return found


def find_sender_doubts(model: SmallAppModel, allowed: Collection[str]) -> list[Problem]:
    """
    Return why the sender that *model* chose would not be used, if it would not.

    It is no error: the settings of workers count, and mails are sent all the same.

    Args:
        allowed: The hosts in the settings of this process, in lower case.
    """
    sender = None if model.mail is None else model.mail.from_address
    doubt = find_sender_doubt(sender, allowed)
    return [] if doubt is None else [Problem("/mail/from_address", doubt, "")]


def find_sender_doubt(sender: str | None, allowed: Collection[str]) -> str | None:
    """Return why *sender*, of a small app, would not be used; None: it would."""
    if not sender or sender.rpartition("@")[2].lower() in allowed:
        return None
    return (
        f"{sender!r} is of no host in MINUTEHAND_MAIL_SENDER_HOSTS here, so mails"
        " come from the sender of the installation."
    )
