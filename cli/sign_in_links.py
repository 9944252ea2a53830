"""Links with which people sign in at the pages, once."""

from __future__ import annotations

import sqlalchemy as sa

from cli.connection import get_actor, write_database
from overview.access.callers import Caller
from overview.access.roles import Role
from overview.access.sign_ins import make_link


def make_link_here(
    url: str,
    *,
    role: Role = Role.ADMIN,
    app: str | None = None,
    engine: sa.Engine | None = None,
) -> str:
    """
    Return a link that signs in once, as whoever calls this command.

    Args:
        url: Where the pages are.

        role: What it lets them do.

        app: Uid of the only small app that it lets them see. None: all.

        engine: Of the installation. None: that of the settings.
    """
    # The demo, which has an engine of its own, does not read the environment.
    name = get_actor() if engine is None else "the demo"
    with write_database(engine) as connection:
        secret = make_link(connection, Caller(None, name, role, app))
    return f"{url}/sign-in?link={secret}"
