"""Each page, list and command that is asked for, with its filters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

import psycopg
from fastapi import Request

from benchmarks.installation import DAYS, RARE_WORD, Installation
from models.paging import Position
from serving.cursors import write_cursor

ROOT = "/api/v1"


class Asked(NamedTuple):
    """Something that is asked for, and its addresses, in turns."""

    name: str
    paths: list[str]


@dataclass(frozen=True)
class Facts:
    """What is asked for: found in the database, so that it is there."""

    connection: psycopg.Connection[Any]
    made: Installation

    def one(self, query: str) -> Any:
        """Return the first column of the first row."""
        return self.row(query)[0]

    def row(self, query: str) -> tuple[Any, ...]:
        """Return the first row."""
        found = self.connection.execute(query).fetchone()
        assert found is not None, f"nothing found: {query}"
        return tuple(found)

    def column(self, query: str) -> list[Any]:
        """Return the first column."""
        return [each for each, *_ in self.connection.execute(query).fetchall()]

    def deep(self, table: str, *key: str, where: str = "true") -> Position:
        """Return a position nine tenths down a list whose sort key falls."""
        count = self.one(f"select count(*) from {table} where {where}")
        order = ", ".join(f"{column} desc" for column in key)
        return self.row(
            f"select {', '.join(key)} from {table} where {where} order by {order}"
            f" limit 1 offset {count * 9 // 10}"
        )


def make_pages(facts: Facts) -> list[Asked]:
    """Return pages of each kind, with their filters."""
    largest, busy = facts.made.app(1), "report-0"
    month = facts.made.now - timedelta(days=30)
    day = f"from={month:%Y-%m-%dT00:00Z}&until={month:%Y-%m-%dT23:59Z}"
    week = f"{month:%G-W%V}"
    event = facts.one("select id from events where app = 'app-01' limit 1")
    bulk = facts.one("select id from bulk_changes limit 1")
    backfill = facts.one("select id from backfills limit 1")
    mailing = facts.one("select operation_id from deliveries limit 1")
    more = {
        "Operations, of all times": "/operations?range=all",
        "Operations, failed, of all times": "/operations?range=all&state=failed",
        "Operations, live": "/operations?state=running",
        "Operations, of a day": f"/operations?{day}",
        "Operations, of a day, app": f"/operations?{day}&app={largest}",
        "Operations, heavy": "/operations?queue=heavy&range=all",
        "Operations, by text": f"/operations?range=all&text={RARE_WORD}",
        "Operations, uncertain": "/operations?state=uncertain&range=all",
        "Operations, to retry": "/operations?state=retrying&range=all",
        "Operation, log": f"/operations/{mailing}/log",
        "Actions, in trouble": "/actions?trouble=any",
        "Actions, paused": "/actions?state=paused",
        "Actions, deleted": "/actions?state=deleted",
        "Action, revisions": f"/actions/{busy}/revisions",
        "Action, recipients": f"/actions/{busy}/recipients",
        "Action, backfill": f"/actions/{busy}/backfill",
        "New action": "/actions/new",
        "Timeline, a day": "/timeline?span=24h",
        "Timeline, a week": "/timeline?span=7d",
        "Timeline, a week of an app": f"/timeline?span=7d&app={largest}",
        "Calendar, a week ago": f"/calendar?week={week}",
        "Calendar, a week ago, app": f"/calendar?week={week}&app={largest}",
        "Planned": "/calendar/planned",
        "Data of an app, users": f"/apps/{largest}/users",
        "Mails, of an operation": f"/mails/{mailing}",
        "Mails, of an app": f"/mails?app={largest}",
        "Mails, uncertain": "/mails?state=uncertain",
        "Events, of an app": f"/events?app={largest}",
        "Event": f"/events/{largest}/{event}",
        "Changes": "/settings/changes",
        "Changes, of an app": f"/settings/changes?app={largest}",
        "Bulk change": f"/bulk/{bulk}",
        "Backfill": f"/backfills/{backfill}",
        "Search": "/search?q=invoice",
        "Search, rare": f"/search?q={RARE_WORD}",
        "Installation": "/settings/installation",
        "Doctor": "/settings/doctor",
        "Begin": "/begin",
        "Pause all?": "/pause",
        "Pause?": f"/actions/{busy}/pause",
        "Run?": f"/actions/{busy}/run",
        "Pause of an app?": f"/apps/{largest}/pause",
        "Cancel many?": "/operations/bulk?kind=cancel&all=1&state=pending",
        "Retry many?": "/operations/bulk?kind=retry&all=1&state=failed&range=all",
    }
    return [
        *_ask_pages(facts),
        *(Asked(name, [path]) for name, path in more.items()),
    ]


def make_lists(facts: Facts) -> list[Asked]:
    """Return lists of the API, with their filters and from their middle."""
    largest = facts.made.app(1)
    more = {
        "operations, facets": "/operations/facets",
        "operations, facets, app": f"/operations/facets?app={largest}",
        "operations, facets, text": "/operations/facets?text=stock",
        "calendar": "/calendar",
        "timeline": "/timeline",
        "planned": "/planned",
        "queues": "/queues",
        "installation": "/installation",
        "support bundle": "/support-bundle",
        "app, calendar file": f"/apps/{largest}/calendar.ics",
    }
    return [
        *(Asked(f"api: {each.name}", each.paths) for each in _ask_lists(facts)),
        *(Asked(f"api: {name}", [f"{ROOT}{path}"]) for name, path in more.items()),
    ]


def _ask_pages(facts: Facts) -> list[Asked]:
    largest, busy = facts.made.app(1), "report-0"
    failed = facts.one("select id from operations where state = 'failed' limit 1")
    ran = facts.one("select operation_id from operation_steps limit 1")
    return [
        Asked("Now", ["/"]),
        Asked("Actions", ["/actions"]),
        Asked("Actions, list of an app", [f"/actions?app={largest}"]),
        Asked("Actions, list by text", [f"/actions?text={RARE_WORD}"]),
        Asked("Action", [f"/actions/{busy}"]),
        Asked("Editor", [f"/actions/{busy}/edit"]),
        Asked("Operations, list", ["/operations"]),
        Asked("Operations, list of failed", ["/operations?state=failed"]),
        Asked("Operations, list of an app", [f"/operations?app={largest}"]),
        Asked("Operations, list of an action", [f"/operations?action={busy}"]),
        Asked("Operation", [f"/operations/{ran}"]),
        Asked("Operation, failed", [f"/operations/{failed}"]),
        Asked("Timeline", ["/timeline"]),
        Asked("Timeline of an app", [f"/timeline?app={largest}"]),
        Asked("Calendar", ["/calendar"]),
        Asked("Calendar of an app", [f"/calendar?app={largest}"]),
        Asked("Workers", ["/workers"]),
        Asked("Data", ["/apps"]),
        Asked("Data of an app", [f"/apps/{largest}"]),
        Asked("Mails, list", ["/mails"]),
        Asked("Mails, list of failed", ["/mails?state=failed"]),
        Asked("Events, list", ["/events"]),
        Asked("Settings", ["/settings"]),
    ]


def page(path: str, after: Position | None = None, **filters: Any) -> str:
    """Return the address of a part of a list; *after* is where the part begins."""
    query = urlencode({key: value for key, value in filters.items() if value})
    if after is None:
        return f"{ROOT}{path}?{query}"
    asked = {"type": "http", "method": "GET", "headers": [], "path": ROOT + path}
    request = Request({**asked, "query_string": query.encode()})
    return f"{ROOT}{path}?{query}&cursor={write_cursor(after, request)}"


def _ask_lists(facts: Facts) -> list[Asked]:
    return [
        *_ask_operations(facts),
        *_ask_actions(facts),
        *_ask_rest(facts),
    ]


def _ask_operations(facts: Facts) -> list[Asked]:
    path, largest, rare = "/operations", facts.made.app(1), facts.made.app(20)
    key = ("recorded_at", "occurrence", "id")
    busy = "report-0"
    ids = facts.column(
        "select id from operations tablesample system (1) order by random() limit 200"
    )
    recent = facts.column(
        "select operation_id from operation_log group by 1 order by random() limit 50"
    )
    mailing = facts.column("select distinct operation_id from deliveries limit 50")
    month = facts.made.now - timedelta(days=DAYS // 3)
    return [
        Asked("operations", [page(path)]),
        Asked("operations, 200 of them", [page(path, limit=200)]),
        Asked("operations, deep", [page(path, facts.deep("operations", *key))]),
        Asked("operations, largest app", [page(path, app=largest)]),
        Asked("operations, smallest app", [page(path, app=rare)]),
        Asked(
            "operations, smallest app, deep",
            [
                page(
                    path,
                    facts.deep("operations", *key, where=f"app = '{rare}'"),
                    app=rare,
                )
            ],
        ),
        Asked("operations, live", [page(path, state="running")]),
        Asked("operations, failed", [page(path, state="failed")]),
        Asked(
            "operations, failed, deep",
            [
                page(
                    path,
                    facts.deep("operations", *key, where="state = 'failed'"),
                    state="failed",
                )
            ],
        ),
        Asked("operations, missed (rare)", [page(path, state="missed")]),
        Asked("operations, canceled (rare)", [page(path, state="canceled")]),
        Asked(
            "operations, smallest app, failed", [page(path, app=rare, state="failed")]
        ),
        Asked("operations of a busy action", [page(path, action=busy)]),
        Asked("operations of a busy action, failed", [_busy_failed(path, busy)]),
        Asked("operations of an action", [page(path, action=a) for a in _few(facts)]),
        Asked("operations, heavy", [page(path, queue="heavy")]),
        Asked("operations, by hand", [page(path, trigger="manual")]),
        Asked("operations, reason", [page(path, reason="time limit")]),
        Asked("operations, text", [page(path, text="took nothing within 3 s")]),
        Asked("operations, text of nothing", [page(path, text="no such text")]),
        Asked("operations of a day", [_of_a_day(path, month)]),
        Asked("operations, counts by state", [page(f"{path}/counts")]),
        Asked("operations, counts, app", [page(f"{path}/counts", app=largest)]),
        Asked("operation", [page(f"{path}/{each}") for each in ids]),
        Asked("operation, state", [page(f"{path}/{each}/state") for each in ids]),
        Asked("operation, steps", [page(f"{path}/{each}/steps") for each in ids]),
        Asked("operation, log", [page(f"{path}/{each}/log") for each in recent]),
        Asked(
            "operation, deliveries",
            [page(f"{path}/{each}/deliveries") for each in mailing],
        ),
    ]


def _busy_failed(path: str, action: str) -> str:
    return page(path, action=action, state="failed")


def _of_a_day(path: str, at: datetime) -> str:
    until = at + timedelta(days=1)
    return page(path, **{"from": at.isoformat(), "until": until.isoformat()})


def _few(facts: Facts) -> list[str]:
    return facts.column(
        "select uid from scheduled_actions where deleted_at is null"
        " order by random() limit 50"
    )


def _ask_actions(facts: Facts) -> list[Asked]:
    path, largest, rare = "/actions", facts.made.app(1), facts.made.app(20)
    deep = facts.row(
        "select app, name, uid from scheduled_actions where deleted_at is null"
        f" order by 1, 2, 3 limit 1 offset {facts.made.size.actions * 4 // 5}"
    )
    few, busy = _few(facts), "report-0"
    now = facts.made.now
    week, month = (now - timedelta(days=days) for days in (7, 30))
    return [
        Asked("actions", [page(path)]),
        Asked("actions, 200 of them", [page(path, limit=200)]),
        Asked("actions, deep", [page(path, deep)]),
        Asked("actions, largest app", [page(path, app=largest)]),
        Asked("actions, smallest app", [page(path, app=rare)]),
        *(
            Asked(f"actions, {state}", [page(path, state=state)])
            for state in ("active", "paused", "inactive", "quarantined", "deleted")
        ),
        Asked("actions, kind cron_rule", [page(path, kind="cron_rule")]),
        Asked("actions, kind after (rare)", [page(path, kind="after")]),
        Asked("actions, heavy", [page(path, queue="heavy")]),
        Asked("actions, text", [page(path, text="invoice")]),
        Asked("actions, rare text", [page(path, text=RARE_WORD)]),
        Asked("actions, text of nothing", [page(path, text="no such text")]),
        Asked("actions, in trouble", [page(path, trouble="any")]),
        Asked("actions, app in trouble", [page(path, app=largest, trouble="failed")]),
        Asked("action", [page(f"{path}/{uid}") for uid in few]),
        Asked("action, revisions", [page(f"{path}/{uid}/revisions") for uid in few]),
        Asked("busy action, occurrences", [_between(path, busy, week, now)]),
        Asked("action, occurrences", [_between(path, uid, month, now) for uid in few]),
        Asked("action, recipients", [page(f"{path}/{uid}/recipients") for uid in few]),
        Asked("action, backfills", [page(f"{path}/{uid}/backfills") for uid in few]),
        Asked("action, why", [_why(f"{path}/{uid}/why", week) for uid in few]),
    ]


def _why(path: str, at: datetime) -> str:
    return page(path, at=at.replace(second=0, microsecond=0).isoformat())


def _between(path: str, uid: str, begin: datetime, until: datetime) -> str:
    bounds = {"from": begin.isoformat(), "until": until.isoformat()}
    return page(f"{path}/{uid}/occurrences", **bounds)


def _ask_rest(facts: Facts) -> list[Asked]:
    largest, rare, now = facts.made.app(1), facts.made.app(20), facts.made.now
    week = (now + timedelta(days=7)).isoformat()
    return [
        Asked("apps", [page("/apps")]),
        Asked("largest app", [page(f"/apps/{largest}")]),
        Asked("users, largest app", [page(f"/apps/{largest}/users")]),
        Asked(
            "users, deep",
            [page(f"/apps/{largest}/users", ("user-50000",), limit=200)],
        ),
        Asked("users, text", [page(f"/apps/{largest}/users", text="user-40001@")]),
        Asked("users, text of nothing", [page(f"/apps/{largest}/users", text="none")]),
        Asked("users of a group", [page(f"/apps/{largest}/users", group="group-3")]),
        Asked("groups", [page(f"/apps/{largest}/groups")]),
        Asked("data", [page(f"/apps/{largest}/domains")]),
        Asked("events, largest app", [page("/events", app=largest)]),
        Asked("mails", [page("/mails")]),
        Asked("mails, smallest app", [page("/mails", app=rare)]),
        Asked("mails, failed", [page("/mails", state="failed")]),
        Asked("bulk changes", [page("/bulk")]),
        Asked("changes", [page("/changes")]),
        Asked("changes, smallest app", [page("/changes", app=rare)]),
        Asked("changes, of one thing", [_change_of(facts)]),
        Asked("changes, by somebody", [page("/changes", by="person-3@host")]),
        Asked("keys", [page("/keys")]),
        Asked("status", [page("/status")]),
        Asked("workers", [page("/workers")]),
        Asked("now", [page("/now")]),
        Asked("now, largest app", [page("/now", app=largest)]),
        Asked("now, smallest app", [page("/now", app=rare)]),
        Asked("minutes", [page("/minutes")]),
        Asked("minutes, largest app", [page("/minutes", app=largest)]),
        Asked("load of a day", [page("/load")]),
        Asked("load of a week", [page("/load", until=week)]),
        Asked("doctor", [page("/doctor")]),
        Asked("audit of an hour, app", [_audit(now, rare)]),
    ]


def _audit(now: datetime, app: str) -> str:
    bounds = {"from": (now - timedelta(hours=1)).isoformat(), "until": now.isoformat()}
    return page("/audit", app=app, **bounds)


def _change_of(facts: Facts) -> str:
    kind, subject = facts.row("select kind, subject from changes limit 1")
    return page("/changes", kind=kind, subject=subject)


def make_commands(facts: Facts) -> list[str]:
    """Return what people type."""
    operation = facts.one("select id from operations where state = 'failed' limit 1")
    since = facts.made.now - timedelta(hours=1)
    day = facts.made.now - timedelta(days=30)
    return [
        "status",
        "doctor",
        "operations list",
        "operations list --state failed",
        "operations list --app app-01",
        "operations list --app app-20 --state failed",
        "operations list --action report-0",
        f"operations list --from {day:%Y-%m-%dT00:00Z} --until {day:%Y-%m-%dT23:59Z}",
        f"operations show {operation}",
        f"operations state {operation}",
        f"operations log {operation}",
        "operations cancel --all --dry-run",
        "actions list --app app-20",
        "actions show report-0",
        "apps list",
        "apps show app-01",
        f"why report-0 --at {since:%Y-%m-%dT%H:00Z}",
        "load",
        f"audit --app app-20 --from {since:%Y-%m-%dT%H:%MZ}",
        "queues list",
        "workers list",
        "mails list",
        "backfills list",
        "keys list",
        "changes list",
        "tick --dry-run",
    ]
