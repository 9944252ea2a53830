"""What small apps need: mail servers, SQL roles of their own, time zones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import sqlalchemy as sa

from actions.zone_changes import find_moved, find_unreadable
from models.database.tables import scheduled_actions, small_apps
from models.errors import UnreachableError
from models.fields.sql_connection import EVERY_APP, find_roles
from models.fields.zone import load_zone
from models.units import show_instant
from operations.mail.server_pauses import fetch_pauses
from overview.doctor.finding import Finding, Health, View
from overview.doctor.thresholds import MAIL_FORGOTTEN_AFTER

#: The most apps that are named.
_NAMED = 5


def look_at_sign_in(view: View) -> Iterator[Finding]:
    """Ask the company's identity provider for itself, and look for apps of nobody."""
    issuer = view.settings.oidc_issuer
    if issuer is None:
        return
    # What sends requests takes long to load, which every command would wait for.
    from operations.adapters.identity_provider import describe  # noqa: PLC0415

    try:
        describe(issuer)
    except UnreachableError as error:
        found = f"{error}. Keys and links sign people in all the same."
        yield Finding("sign-in", Health.DOUBTFUL, found, "the company's sign-in fails")
    named = {app for roles in view.settings.oidc_groups.values() for app in roles}
    for found in _find_unknown(view, "OIDC_GROUPS", named):
        yield Finding("sign-in", Health.DOUBTFUL, found, "a group is of no small app")


def _find_unknown(view: View, setting: str, named: Iterable[str]) -> list[str]:
    """Return a sentence for some of *named* that are no small apps."""
    query = sa.select(small_apps.c.uid).where(small_apps.c.deleted_at.is_(None))
    known = view.connection.execute(query).scalars()
    return [
        f"MINUTEHAND_{setting} names {uid!r}, which is no small app"
        for uid in sorted({*named} - {EVERY_APP, *known})[:_NAMED]
    ]


def look_at_bounds(view: View) -> Iterator[Finding]:
    """Look for bounds of nobody, such as by a typo: they would bound nothing."""
    by_app = view.settings.app_bounds
    for found in _find_unknown(view, "APP_BOUNDS", by_app) if by_app else ():
        yield Finding("bounds", Health.DOUBTFUL, found, "bounds are of no small app")


def look_at_mail(view: View) -> Iterator[Finding]:
    """Report mail servers that are left alone because they serve nobody."""
    for pause in fetch_pauses(view.connection):
        # No trial although one was due: there are no mails, or the server was replaced.
        forgotten = view.now - pause.retry_at > MAIL_FORGOTTEN_AFTER
        health = Health.DOUBTFUL if forgotten else Health.BAD
        title = "the mail server serves nobody"
        found = f"{pause}. What mails waits, and goes on when it serves again."
        yield Finding("mail", health, found, title, pause.since)


def _fetch_told(view: View, uids: Sequence[str]) -> dict[str, str]:
    """Return what the actions among *uids* are called, and whose they are."""
    kept = scheduled_actions.c
    query = sa.select(kept.uid, kept.name, kept.app).where(kept.uid.in_(uids))
    rows = view.connection.execute(query)
    return {uid: f"{name!r} (app {app})" for uid, name, app in rows}


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


def look_at_zones(view: View) -> Iterator[Finding]:
    """Look for actions that the time zone database in use moves or cannot read."""
    moved = find_moved(view.connection, now=view.now)
    unreadable = find_unreadable(view.connection)
    uids = [each.action_uid for each in unreadable]
    named = _fetch_told(view, uids + [each.action_uid for each in moved])
    for lost in unreadable:
        found = f"{named[lost.action_uid]}: {lost.reason} Post it again."
        yield Finding("tzdata", Health.DOUBTFUL, found)
    for each in moved:
        zone = load_zone(each.zone)
        found = (
            f"{named[each.action_uid]}: the occurrence at"
            f" {show_instant(each.before, zone)} moves to"
            f" {show_instant(each.after, zone)} ({each.zone})"
        )
        yield Finding("tzdata", Health.DOUBTFUL, found)
    if not (moved or unreadable):
        found = "it moves no occurrence of a stored action within a year"
        yield Finding("tzdata", Health.GOOD, found)
