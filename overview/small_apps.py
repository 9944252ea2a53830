"""
Small apps as faces show them: what belongs to them, and what is going on in them.

Addresses of sources are shown without the parts that may hold a secret, and those of
webhooks by their hosts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.pausing.pause_state import Pause, get_pause
from actions.small_apps import export
from models.database.engine import db_now
from models.database.lists import belongs_to, cut_part
from models.database.tables import (
    IDLE_ACTIONS,
    TROUBLED,
    UNCERTAIN,
    deliveries,
    domains,
    operations,
    scheduled_actions,
    small_apps,
)
from models.fields.addresses import name_monitor
from models.paging import Page, Part
from operations.running.pace import Working, fetch_working

#: How far back failed and missed operations are counted.
WITHIN = timedelta(hours=24)

#: Rows of each kind that are looked at, of all apps together: some 5 ms.
_LOOKED_AT = 5_000

#: Actions lie far apart in their table, so that each costs more.
_ACTIONS_LOOKED_AT = 2_000


@dataclass(frozen=True, slots=True)
class AppStanding:
    """
    What needs a look in a small app.

    ``failed`` and ``missed`` are the operations of 24 hours, and the latest of them;
    ``quarantined`` and ``paused`` are actions; ``uncertain`` are mails; ``unpublished``
    are the domains whose staged version is not live. ``is_whole`` is false if there is
    too much to be counted in a list.
    """

    failed: int
    missed: int
    last_trouble_at: datetime | None
    quarantined: int
    paused: int
    uncertain: int
    unpublished: int
    is_whole: bool

    @property
    def needs_look(self) -> bool:
        """Whether something went wrong, or waits for a decision."""
        return any((self.failed, self.missed, self.quarantined, self.uncertain))


def fetch_standings(
    connection: sa.Connection, apps: Collection[str]
) -> Mapping[str, AppStanding]:
    """
    Return what needs a look in each of *apps*.

    Args:
        apps: Uids; at most those of one part of a list.
    """
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    is_whole = True
    for query, most in (
        (_count_troubled(apps), _LOOKED_AT),
        (_count_idle(apps), _ACTIONS_LOOKED_AT),
        (_count_uncertain(apps), _LOOKED_AT),
        (_count_unpublished(apps), None),
    ):
        seen = 0
        for row in connection.execute(query).mappings():
            values = dict(row)
            seen += values.pop("looked_at", 0)
            found[values.pop("app")].update(values)
        is_whole &= most is None or seen < most
    nothing = {
        **dict.fromkeys((each.name for each in fields(AppStanding)), 0),
        "last_trouble_at": None,
    }
    return {
        app: AppStanding(**{**nothing, **found[app], "is_whole": is_whole})
        for app in apps
    }


def _pick(column: sa.ColumnElement[str], apps: Collection[str]) -> Any:
    """Return the condition; of one app, as an index is found for it."""
    return column == next(iter(apps)) if len(apps) == 1 else column.in_(sorted(apps))


def _count(condition: sa.ColumnElement[bool], name: str) -> sa.Label[int]:
    return sa.func.sum(sa.case((condition, 1), else_=0)).label(name)


def _count_troubled(apps: Collection[str]) -> sa.Select[Any]:
    columns = operations.c
    latest = (
        sa.select(columns.app, columns.state, columns.finished_at)
        .where(
            TROUBLED.of(),
            columns.finished_at >= db_now(-WITHIN),
            _pick(columns.app, apps),
        )
        .order_by(columns.finished_at.desc())
        .limit(_LOOKED_AT)
        .subquery("latest")
    )
    ended_at = latest.c.finished_at
    return sa.select(
        latest.c.app,
        _count(latest.c.state == "failed", "failed"),
        _count(latest.c.state == "missed", "missed"),
        sa.func.max(ended_at, type_=ended_at.type).label("last_trouble_at"),
        sa.func.count().label("looked_at"),
    ).group_by(latest.c.app)


def _count_idle(apps: Collection[str]) -> sa.Select[Any]:
    columns = scheduled_actions.c
    idle = (
        sa.select(columns.app, columns.paused_at, columns.quarantined_at)
        .where(
            columns.deleted_at.is_(None),
            IDLE_ACTIONS.of("scheduled_actions"),
            _pick(columns.app, apps),
        )
        .limit(_ACTIONS_LOOKED_AT)
        .subquery("idle")
    )
    is_quarantined = idle.c.quarantined_at.is_not(None)
    return sa.select(
        idle.c.app,
        _count(is_quarantined, "quarantined"),
        _count(~is_quarantined & idle.c.paused_at.is_not(None), "paused"),
        sa.func.count().label("looked_at"),
    ).group_by(idle.c.app)


def _count_uncertain(apps: Collection[str]) -> sa.Select[Any]:
    owned = (
        sa.select(deliveries.c.app)
        .where(UNCERTAIN.of("deliveries"))
        .limit(_LOOKED_AT)
        .subquery("owned")
    )
    count = sa.func.count()
    return (
        sa.select(owned.c.app, count.label("uncertain"), count.label("looked_at"))
        .where(_pick(owned.c.app, apps))
        .group_by(owned.c.app)
    )


def _count_unpublished(apps: Collection[str]) -> sa.Select[Any]:
    columns = domains.c
    return (
        sa.select(columns.app, sa.func.count().label("unpublished"))
        .where(
            _pick(columns.app, apps),
            columns.staged_version.is_not(None),
            columns.staged_version.is_distinct_from(columns.live_version),
        )
        .group_by(columns.app)
    )


@dataclass(frozen=True, slots=True)
class ListedApp:
    """
    A small app, and the numbers of its users, domains and actions.

    ``pause`` is its own, and ``working`` the heavy operation of it that a worker runs;
    null: none.
    """

    uid: str
    name: str | None
    timezone: str | None
    revision: int
    users: int
    domains: int
    actions: int
    pause: Pause | None
    working: Working | None
    standing: AppStanding


@dataclass(frozen=True, slots=True)
class ShownDomain:
    """A domain of a small app; its source is without secrets."""

    name: str
    source: Mapping[str, Any]
    staged_version: int | None
    live_version: int | None
    published_at: datetime | None
    title: str | None
    description: str | None

    @property
    def place(self) -> str:
        """The place that its data come from: a file, an address or a query."""
        return next(
            str(value)
            for key, value in self.source.items()
            if key in {"file", "url", "sql"}
        )


@dataclass(frozen=True, slots=True)
class AppMail:
    """What a small app writes on its mails beside their content; null: nothing."""

    from_name: str | None
    from_address: str | None
    reply_to: str | None
    unsubscribe: str | None
    locale: str | None


@dataclass(frozen=True, slots=True)
class ShownNotices:
    """Who gets notices of failures; of the address of the webhook, only the host."""

    mail: Sequence[str]
    webhook: str | None

    @property
    def recipients(self) -> list[str]:
        """All of them, the webhook last."""
        return [*self.mail, *([self.webhook] if self.webhook else [])]


@dataclass(frozen=True, slots=True)
class DetailedApp:
    """
    A small app with all that belongs to it; its users are counted, not listed.

    ``timezone`` is null if that of the installation applies; ``groups`` has the number
    of members of each; ``templates``, ``documents`` and ``holidays`` are names.
    """

    uid: str
    name: str | None
    timezone: str | None
    revision: int
    source_folder: str | None
    created_at: datetime
    updated_at: datetime
    pause: Pause | None
    working: Working | None
    notices: ShownNotices | None
    users: int
    groups: Mapping[str, int]
    domains: tuple[ShownDomain, ...]
    templates: Sequence[str]
    documents: Sequence[str]
    holidays: Sequence[str]
    mail: AppMail | None

    @property
    def sender(self) -> str | None:
        """Whom its mails name as their sender. None: that of the installation."""
        if self.mail is None:
            return None
        name, address = self.mail.from_name, self.mail.from_address
        return f"{name} <{address}>" if name and address else name or address

    def seen_by(self, app: str | None) -> DetailedApp:
        """
        Return it as somebody may see it who sees *app* alone; None: all apps.

        Where its files are on the operator's hosts is nothing to tell a tenant.
        """
        return self if app is None else replace(self, source_folder=None)


def fetch_listed_apps(connection: sa.Connection) -> list[ListedApp]:
    """Return the small apps, sorted by uid."""
    return _list(connection, export.fetch_apps(connection), fetch_working(connection))


def fetch_app_part(
    connection: sa.Connection, page: Page, *, app: str | None = None
) -> Part[ListedApp]:
    """
    Return a part of the small apps, sorted by uid.

    Args:
        page: After a uid.
        app: The only one that may be seen. None: all.
    """
    start = page.read_after(str)
    after = start and start[0]
    rows = export.fetch_apps(connection, app=app, after=after, limit=page.limit + 1)
    part = cut_part(rows, page, [small_apps.c.uid])
    working = fetch_working(connection, app)
    return Part(_list(connection, part.entries, working), part.following)


def _list(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    working: Mapping[str, Working],
) -> list[ListedApp]:
    standings = fetch_standings(connection, [row.uid for row in rows]) if rows else {}
    return [
        ListedApp(
            *(row.uid, row.name, row.timezone, row.revision),
            *(row.users, row.domains, row.scheduled_actions),
            *(get_pause(row), working.get(row.uid), standings[row.uid]),
        )
        for row in rows
    ]


def fetch_detailed_app(connection: sa.Connection, uid: str) -> DetailedApp:
    """
    Return a small app with all that belongs to it.

    Raises:
        NotFoundError: No such small app.
    """
    row = fetch_app(connection, uid)
    mail = row.mail or None
    kept: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS}
    kept |= export.fetch_names(connection, uid)
    return DetailedApp(
        **kept,
        pause=get_pause(row),
        working=fetch_working(connection, uid).get(uid),
        notices=_make_notices(row.notices),
        users=export.count_users(connection, uid),
        groups=export.fetch_groups(connection, uid),
        domains=tuple(
            ShownDomain(
                *(each.name, hide_source(each.source)),
                *(each.staged_version, each.live_version, each.published_at),
                *get_labels(each),
            )
            for each in export.fetch_domains(connection, uid)
        ),
        mail=mail and AppMail(*(mail.get(each.name) for each in fields(AppMail))),
    )


#: What it has of its row as it is.
_COLUMNS = (
    *("uid", "name", "timezone", "revision"),
    *("source_folder", "created_at", "updated_at"),
)


def get_labels(domain: sa.Row[Any]) -> tuple[str | None, str | None]:
    """Return the title and the description of the row of a domain."""
    labels = domain.labels or {}
    return labels.get("title"), labels.get("description")


def hide_secrets(url: str) -> str:
    """
    Mask the user info and the query values of *url*, and cut off its fragment.

    >>> hide_secrets("https://ada:pw@example.com/rates?token=s3cret&day=1")
    'https://***@example.com/rates?token=***&day=***'
    """
    parts = urlsplit(url)
    _, at, host = parts.netloc.rpartition("@")
    names = [each.partition("=") for each in parts.query.split("&")]
    return parts._replace(
        netloc=f"***@{host}" if at else host,
        # A part without a name may itself be a key.
        query="&".join(f"{name}=***" if sign else "***" for name, sign, _ in names)
        if parts.query
        else "",
        fragment="",
    ).geturl()


def hide_source(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return *source* without secrets: a database URL may hold a password."""
    shown = {key: value for key, value in source.items() if key != "database"}
    if "url" in shown:
        shown["url"] = hide_secrets(shown["url"])
    return shown


def _make_notices(notices: Mapping[str, Any] | None) -> ShownNotices | None:
    """Return who gets notices; whoever knows all of a webhook can post there, too."""
    if notices is None:
        return None
    webhook = notices.get("webhook")
    shown = None if webhook is None else name_monitor(webhook)
    return ShownNotices(notices.get("mail", []), shown)


#: Small apps that one may choose from; more are not a choice any more.
MOST_CHOICES = 500


@dataclass(frozen=True, slots=True)
class AppChoice:
    """A small app; *timezone* is None if it has none of its own."""

    uid: str
    name: str
    timezone: str | None


def fetch_app_choices(
    connection: sa.Connection, app: str | None = None
) -> list[AppChoice]:
    """
    Return the small apps by uid, at most MOST_CHOICES.

    Args:
        app: The only one that may be seen. None: all.
    """
    query = (
        sa.select(small_apps.c.uid, small_apps.c.name, small_apps.c.timezone)
        .where(small_apps.c.deleted_at.is_(None), *belongs_to(app, small_apps.c.uid))
        .order_by(small_apps.c.uid)
        .limit(MOST_CHOICES)
    )
    return [AppChoice(*row) for row in connection.execute(query)]
