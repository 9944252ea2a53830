"""
What a shell offers after TAB: the uids, names and ids that are stored.

A TAB is not a call: it creates no database, says nothing, and gives up within a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import sqlalchemy as sa
import typer

from actions.lookup import Suggestion, suggest_actions, suggest_apps
from cli.connection import peek_at_database
from overview.suggestions import suggest_operations, suggest_workers

#: How long a TAB may take to ask the database.
_DEADLINE_S = 1.0


def complete_app(incomplete: str) -> list[tuple[str, str]]:
    """Return the small apps whose uid begins with *incomplete*."""
    return _ask(lambda connection: suggest_apps(connection, incomplete))


def complete_action(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the actions whose uid or name so begins, of ``--app`` if that is given."""
    app = ctx.params.get("app")
    return _ask(lambda connection: suggest_actions(connection, incomplete, app=app))


def complete_operation(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids of the latest operations that begin with *incomplete*."""
    return _ask(lambda connection: suggest_operations(connection, incomplete))


def complete_worker(incomplete: str) -> list[tuple[str, str]]:
    """Return the workers whose name begins with *incomplete*."""
    return _ask(lambda connection: suggest_workers(connection, incomplete))


def _ask(
    suggest: Callable[[sa.Connection], Sequence[Suggestion]],
) -> list[tuple[str, str]]:
    """Return what *suggest* finds within the deadline, each with a help text."""
    found: list[tuple[str, str]] = []

    def look() -> None:
        # Whatever is wrong, the command itself will say.
        with suppress(Exception), peek_at_database() as connection:
            found.extend(suggest(connection))

    # A thread, since no time limit of a driver holds while it looks up a host's name.
    asking = threading.Thread(target=look, daemon=True)
    asking.start()
    asking.join(_DEADLINE_S)
    return list(found)
