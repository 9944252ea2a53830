"""Links with which people sign in at the pages, once."""

from __future__ import annotations

from cli.connection import get_actor, write_database
from overview.access.callers import Caller
from overview.access.roles import Role
from overview.access.sign_ins import make_link


def make_link_here(url: str, *, role: Role = Role.ADMIN, app: str | None = None) -> str:
    """
    Return a link that signs in once, as whoever calls this command.

    Args:
        url: Where the pages are.

        role: What it lets them do.

        app: Uid of the only small app that it lets them see. None: all.
    """
    with write_database() as connection:
        secret = make_link(connection, Caller(None, get_actor(), role, app))
    return f"{url}/sign-in?link={secret}"
