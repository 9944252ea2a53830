"""
Small apps as faces show them: what they have, and what goes on in them.

Addresses of sources and webhooks are shown without what may be a key in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from actions.list_actions import (
    count_users,
    fetch_apps,
    fetch_domains,
    fetch_groups,
    fetch_names,
)
from actions.lookup import fetch_app
from actions.pausing.pause_state import Pause, get_pause
from operations.running.estimates import Working, fetch_working


@dataclass(frozen=True, slots=True)
class Activity:
    """
    What goes on in a small app.

    Args:
        pause: Its own; None: it has none.

        working: The heavy operation that a worker has of it; None: none has.
    """

    pause: Pause | None
    working: Working | None

    def as_json(self) -> dict[str, object]:
        """Return the documented members; keys are only added."""
        return {
            "pause": None if self.pause is None else self.pause.as_json(),
            "working": None if self.working is None else self.working.as_json(),
        }


@dataclass(frozen=True, slots=True)
class ListedApp:
    """
    A small app, and how many of each it has.

    Args:
        timezone: IANA name; None: that of the installation.
    """

    uid: str
    name: str | None
    timezone: str | None
    users: int
    domains: int
    actions: int
    activity: Activity

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            "uid": self.uid,
            "name": self.name,
            "timezone": self.timezone,
            "users": self.users,
            "domains": self.domains,
            "actions": self.actions,
            **self.activity.as_json(),
        }


@dataclass(frozen=True, slots=True)
class ShownDomain:
    """
    A domain, with the versions of its data.

    Args:
        source: As anybody may see it.

        published_at: When the live version became so, aware UTC.
    """

    name: str
    source: Mapping[str, Any]
    staged_version: int | None
    live_version: int | None
    published_at: datetime | None

    @property
    def place(self) -> str:
        """Where its data come from: a file, an address or a query."""
        return next(
            str(value)
            for key, value in self.source.items()
            if key in {"file", "url", "sql"}
        )

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            "name": self.name,
            "source": self.source,
            "staged_version": self.staged_version,
            "live_version": self.live_version,
            "published_at": self.published_at,
        }


@dataclass(frozen=True, slots=True)
class ShownNotices:
    """Who is told of failures: addresses, and a webhook as anybody may see it."""

    mail: Sequence[str]
    webhook: str | None

    @property
    def recipients(self) -> list[str]:
        """All of them, the webhook last."""
        return [*self.mail, *([self.webhook] if self.webhook else [])]

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {"mail": self.mail, "webhook": self.webhook}


@dataclass(frozen=True, slots=True)
class DetailedApp:
    """
    A small app with what it has; its users are counted, not listed.

    Args:
        timezone: IANA name; None: that of the installation.

        source_folder: Below which the files of its sources lie; None: it has none.

        notices: None: nobody of the app is told of failures.

        groups: How many members each has.

        names: Of its templates, documents and holiday calendars, by part.
    """

    uid: str
    name: str | None
    timezone: str | None
    source_folder: str | None
    created_at: datetime
    updated_at: datetime
    activity: Activity
    notices: ShownNotices | None
    users: int
    groups: Mapping[str, int]
    domains: tuple[ShownDomain, ...]
    names: Mapping[str, Sequence[str]]

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            "uid": self.uid,
            "name": self.name,
            "timezone": self.timezone,
            "source_folder": self.source_folder,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            **self.activity.as_json(),
            "notices": None if self.notices is None else self.notices.as_json(),
            "users": self.users,
            "groups": self.groups,
            "domains": [each.as_json() for each in self.domains],
            **self.names,
        }


def fetch_listed_apps(connection: sa.Connection) -> list[ListedApp]:
    """Return the small apps by uid."""
    working = fetch_working(connection)
    return [
        ListedApp(
            row.uid,
            row.name,
            row.timezone,
            row.users,
            row.domains,
            row.scheduled_actions,
            Activity(get_pause(row), working.get(row.uid)),
        )
        for row in fetch_apps(connection)
    ]


def fetch_detailed_app(connection: sa.Connection, uid: str) -> DetailedApp:
    """
    Return a small app with what it has.

    Raises:
        NotFoundError: No such small app.
    """
    row = fetch_app(connection, uid)
    return DetailedApp(
        uid=row.uid,
        name=row.name,
        timezone=row.timezone,
        source_folder=row.source_folder,
        created_at=row.created_at,
        updated_at=row.updated_at,
        activity=Activity(get_pause(row), fetch_working(connection, uid).get(uid)),
        notices=_make_notices(row.notices),
        users=count_users(connection, uid),
        groups=fetch_groups(connection, uid),
        domains=tuple(
            ShownDomain(
                each.name,
                _hide_source(each.source),
                each.staged_version,
                each.live_version,
                each.published_at,
            )
            for each in fetch_domains(connection, uid)
        ),
        names=fetch_names(connection, uid),
    )


def hide_secrets(url: str) -> str:
    """
    Return *url* without user info, the values of its query, and its fragment.

    >>> hide_secrets("https://ada:pw@example.com/rates?token=s3cret&day=1")
    'https://***@example.com/rates?token=***&day=***'
    """
    parts = urlsplit(url)
    _, at, host = parts.netloc.rpartition("@")
    names = [each.partition("=") for each in parts.query.split("&")]
    return parts._replace(
        netloc=f"***@{host}" if at else host,
        # A part without a name may be a key by itself.
        query="&".join(f"{name}=***" if sign else "***" for name, sign, _ in names)
        if parts.query
        else "",
        fragment="",
    ).geturl()


def _hide_source(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return *source* as anybody may see it: a database URL may hold a password."""
    shown = {key: value for key, value in source.items() if key != "database"}
    if "url" in shown:
        shown["url"] = hide_secrets(shown["url"])
    return shown


def _make_notices(notices: Mapping[str, Any] | None) -> ShownNotices | None:
    """Return who is told of failures; the query of a webhook may hold a key."""
    if notices is None:
        return None
    webhook = notices.get("webhook")
    shown = None if webhook is None else hide_secrets(webhook)
    return ShownNotices(notices.get("mail", []), shown)
