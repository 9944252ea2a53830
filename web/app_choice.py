"""The small apps that a form offers; never one by default."""

from __future__ import annotations

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP
from overview.apps.small_apps import MOST_CHOICES, AppChoice, fetch_app_choices
from serving.context import Context
from web.query import Unread, read_part


def list_apps(context: Context) -> list[tuple[str, str]] | None:
    """Return uid and name of the small apps; None: too many to choose from."""
    found = read_part(context, find_apps)
    # One of those that were read may be our own.
    if isinstance(found, Unread) or len(found) >= MOST_CHOICES - 1:
        return None
    return [(each.uid, each.name or each.uid) for each in found]


def find_apps(connection: sa.Connection) -> list[AppChoice]:
    """Return the small apps, as many as may be offered; not our own."""
    found = fetch_app_choices(connection)
    return [each for each in found if each.uid != SYSTEM_APP]
