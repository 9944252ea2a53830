"""Which connections of the operator the domains of a small app may query. Pure."""

from __future__ import annotations

from collections.abc import Mapping
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
