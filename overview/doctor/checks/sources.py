"""Whether small apps are kept apart where they read SQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from models.fields.sql_connection import EVERY_APP, find_roles
from overview.doctor.finding import Finding, Health, View


def look_at_sources(view: View) -> Iterator[Finding]:
    """Look for small apps that query as one role: each may end what another runs."""
    apps: defaultdict[tuple[str, int, str], set[str]] = defaultdict(set)
    names: defaultdict[tuple[str, int, str], set[str]] = defaultdict(set)
    for name, connection in view.settings.sql_connections.items():
        for role in find_roles(connection.url.get_secret_value()):
            apps[role].update(connection.apps)
            names[role].add(name)
    shared = {
        ", ".join(sorted(names[role]))
        for role, theirs in apps.items()
        if len(theirs) > 1 or EVERY_APP in theirs
    }
    for each in sorted(shared):
        found = (
            f"several small apps query as one role ({each}), so that each may end the"
            " queries of the others (pg_terminate_backend). Give each app a connection"
            " with a role of its own: MINUTEHAND_SQL_CONNECTIONS"
        )
        yield Finding("sources", Health.DOUBTFUL, found, "Small apps share a role")
