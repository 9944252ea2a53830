"""Links with which people sign in at the pages, once."""

from __future__ import annotations

import sys

import sqlalchemy as sa

from cli.connection import get_actor, write_database
from cli.output import print_note
from serving.access.callers import Caller
from serving.access.roles import Role
from serving.access.sign_ins import make_link


def make_link_here(
    url: str,
    *,
    role: Role = Role.ADMIN,
    app: str | None = None,
    engine: sa.Engine | None = None,
) -> str:
    """
    Return a link that signs in once, as whoever calls this command.

    Its secret stands behind the #: browsers send that nowhere, not as a Referer either,
    so that no log of a proxy has it. For a terminal alone, too: logs are read by many.

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
    return f"{url}/sign-in#{secret}"


def tell_how_to_sign_in(url: str) -> None:
    """Print a link to the pages at *url* for whoever sits at the terminal."""
    if sys.stderr.isatty():
        print_note(f"To sign in, once and within 15 minutes: {make_link_here(url)}")
    else:
        print_note("To sign in, in a terminal: minutehand keys link --all --role admin")
