"""
What each list of the HTTP API takes with a million operations, beside Flower's.

Run it as ``python -m benchmarks.api_lists``. Fills a PostgreSQL of its own, starts
``minutehand web``, and asks each list with its typical filters, in turns, so that what
disturbs the machine disturbs all of them. Each is to have a p95 below 50 ms, measured
at a client on the same host, on one connection that is kept.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import psycopg
from fastapi import Request

from benchmarks.command import add_operations, describe_load, make_parser, run_command
from benchmarks.flower_peer import MOST, run_flower
from benchmarks.installation import DAYS, RARE_WORD, Installation, fill_shown
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.web import Client, cpu_of, run_web
from models.paging import Position
from serving.cursors import write_cursor

ROOT = "/api/v1"

#: What p95 is to be, at most.
GOAL_MS = 50.0

#: Not measured: the first requests fill caches of the server and of PostgreSQL.
_WARM = 5

#: A case that took as much in all is asked no more.
_ENOUGH_MS = 20_000.0

#: Asked in a row to see its CPU, which the kernel tells by the hundredth of a second.
_IN_A_ROW = 25

#: Bytes of a refusal that are shown.
_SHOWN = 200


@dataclass
class Case:
    """
    One list with one set of filters.

    Args:
        paths: Asked for in turns.

        cpu_ms: Of one request, in the web process and in PostgreSQL together.
    """

    name: str
    paths: list[str]
    took_ms: list[float] = field(default_factory=list)
    cpu_ms: float | None = None
    answer: bytes = b""

    @property
    def p50_ms(self) -> float:
        """The median."""
        return statistics.median(self.took_ms)

    @property
    def p95_ms(self) -> float:
        """The 95th of a hundred."""
        return sorted(self.took_ms)[len(self.took_ms) * 95 // 100]


def page(path: str, after: Position | None = None, **filters: Any) -> str:
    """Return the address of a part of a list; *after* is where the part begins."""
    query = urlencode({key: value for key, value in filters.items() if value})
    if after is None:
        return f"{ROOT}{path}?{query}"
    asked = {"type": "http", "method": "GET", "headers": [], "path": ROOT + path}
    request = Request({**asked, "query_string": query.encode()})
    return f"{ROOT}{path}?{query}&cursor={write_cursor(after, request)}"


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


def make_cases(facts: Facts) -> list[Case]:
    """Return what is asked for, list by list."""
    return [
        *_ask_operations(facts),
        *_ask_actions(facts),
        *_ask_rest(facts),
    ]


def _ask_operations(facts: Facts) -> list[Case]:
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
        Case("operations", [page(path)]),
        Case("operations, 200 of them", [page(path, limit=200)]),
        Case("operations, deep", [page(path, facts.deep("operations", *key))]),
        Case("operations, largest app", [page(path, app=largest)]),
        Case("operations, smallest app", [page(path, app=rare)]),
        Case(
            "operations, smallest app, deep",
            [
                page(
                    path,
                    facts.deep("operations", *key, where=f"app = '{rare}'"),
                    app=rare,
                )
            ],
        ),
        Case("operations, live", [page(path, state="running")]),
        Case("operations, failed", [page(path, state="failed")]),
        Case(
            "operations, failed, deep",
            [
                page(
                    path,
                    facts.deep("operations", *key, where="state = 'failed'"),
                    state="failed",
                )
            ],
        ),
        Case("operations, missed (rare)", [page(path, state="missed")]),
        Case("operations, canceled (rare)", [page(path, state="canceled")]),
        Case(
            "operations, smallest app, failed", [page(path, app=rare, state="failed")]
        ),
        Case("operations of a busy action", [page(path, action=busy)]),
        Case("operations of a busy action, failed", [_busy_failed(path, busy)]),
        Case("operations of an action", [page(path, action=a) for a in _few(facts)]),
        Case("operations, heavy", [page(path, queue="heavy")]),
        Case("operations, by hand", [page(path, trigger="manual")]),
        Case("operations, reason", [page(path, reason="time limit")]),
        Case("operations, text", [page(path, text="took nothing within 3 s")]),
        Case("operations, text of nothing", [page(path, text="no such text")]),
        Case("operations of a day", [_of_a_day(path, month)]),
        Case("operations, counts by state", [page(f"{path}/counts")]),
        Case("operations, counts, app", [page(f"{path}/counts", app=largest)]),
        Case("operation", [page(f"{path}/{each}") for each in ids]),
        Case("operation, state", [page(f"{path}/{each}/state") for each in ids]),
        Case("operation, steps", [page(f"{path}/{each}/steps") for each in ids]),
        Case("operation, log", [page(f"{path}/{each}/log") for each in recent]),
        Case(
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


def _ask_actions(facts: Facts) -> list[Case]:
    path, largest, rare = "/actions", facts.made.app(1), facts.made.app(20)
    deep = facts.row(
        "select app, name, uid from scheduled_actions where deleted_at is null"
        f" order by 1, 2, 3 limit 1 offset {facts.made.size.actions * 4 // 5}"
    )
    few, busy = _few(facts), "report-0"
    now = facts.made.now
    week, month = (now - timedelta(days=days) for days in (7, 30))
    return [
        Case("actions", [page(path)]),
        Case("actions, 200 of them", [page(path, limit=200)]),
        Case("actions, deep", [page(path, deep)]),
        Case("actions, largest app", [page(path, app=largest)]),
        Case("actions, smallest app", [page(path, app=rare)]),
        *(
            Case(f"actions, {state}", [page(path, state=state)])
            for state in ("active", "paused", "inactive", "quarantined", "deleted")
        ),
        Case("actions, kind cron_rule", [page(path, kind="cron_rule")]),
        Case("actions, kind after (rare)", [page(path, kind="after")]),
        Case("actions, heavy", [page(path, queue="heavy")]),
        Case("actions, text", [page(path, text="invoice")]),
        Case("actions, rare text", [page(path, text=RARE_WORD)]),
        Case("actions, text of nothing", [page(path, text="no such text")]),
        Case("actions, in trouble", [page(path, trouble="any")]),
        Case("actions, app in trouble", [page(path, app=largest, trouble="failed")]),
        Case("action", [page(f"{path}/{uid}") for uid in few]),
        Case("action, revisions", [page(f"{path}/{uid}/revisions") for uid in few]),
        Case("busy action, occurrences", [_between(path, busy, week, now)]),
        Case("action, occurrences", [_between(path, uid, month, now) for uid in few]),
        Case("action, recipients", [page(f"{path}/{uid}/recipients") for uid in few]),
        Case("action, backfills", [page(f"{path}/{uid}/backfills") for uid in few]),
        Case("action, why", [_why(f"{path}/{uid}/why", week) for uid in few]),
    ]


def _why(path: str, at: datetime) -> str:
    return page(path, at=at.replace(second=0, microsecond=0).isoformat())


def _between(path: str, uid: str, begin: datetime, until: datetime) -> str:
    bounds = {"from": begin.isoformat(), "until": until.isoformat()}
    return page(f"{path}/{uid}/occurrences", **bounds)


def _ask_rest(facts: Facts) -> list[Case]:
    largest, rare, now = facts.made.app(1), facts.made.app(20), facts.made.now
    week = (now + timedelta(days=7)).isoformat()
    some_id = str(facts.one("select id from operations limit 1"))
    return [
        Case("apps", [page("/apps")]),
        Case("largest app", [page(f"/apps/{largest}")]),
        Case("users, largest app", [page(f"/apps/{largest}/users")]),
        Case(
            "users, deep",
            [page(f"/apps/{largest}/users", ("user-50000",), limit=200)],
        ),
        Case("users, text", [page(f"/apps/{largest}/users", text="user-40001@")]),
        Case("users, text of nothing", [page(f"/apps/{largest}/users", text="none")]),
        Case("users of a group", [page(f"/apps/{largest}/groups/group-3/members")]),
        Case("groups", [page(f"/apps/{largest}/groups")]),
        Case("data", [page(f"/apps/{largest}/domains")]),
        Case("events, largest app", [page(f"/apps/{largest}/events")]),
        Case("mails", [page("/mails")]),
        Case("mails, smallest app", [page("/mails", app=rare)]),
        Case("mails, failed", [page("/mails", state="failed")]),
        Case("mails, counts by state", [page("/mails/counts")]),
        Case("bulk changes", [page("/bulk")]),
        Case("changes", [page("/changes")]),
        Case("changes, smallest app", [page("/changes", app=rare)]),
        Case("changes, of one thing", [_change_of(facts)]),
        Case("changes, by somebody", [page("/changes", by="person-3@host")]),
        Case("keys", [page("/keys")]),
        Case("status", [page("/status")]),
        Case("workers", [page("/workers")]),
        Case("now", [page("/now")]),
        Case("now, largest app", [page("/now", app=largest)]),
        Case("now, smallest app", [page("/now", app=rare)]),
        Case("minutes", [page("/minutes")]),
        Case("minutes, largest app", [page("/minutes", app=largest)]),
        Case("search, frequent text", [page("/search", q="report")]),
        Case("search, rare text", [page("/search", q=RARE_WORD)]),
        Case("search, an id", [page("/search", q=some_id)]),
        Case("load of a day", [page("/load")]),
        Case("load of a week", [page("/load", until=week)]),
        Case("doctor", [page("/doctor")]),
        Case("audit of an hour, app", [_audit(now, rare)]),
    ]


def _audit(now: datetime, app: str) -> str:
    bounds = {"from": (now - timedelta(hours=1)).isoformat(), "until": now.isoformat()}
    return page("/audit", app=app, **bounds)


def _change_of(facts: Facts) -> str:
    kind, subject = facts.row("select kind, subject from changes limit 1")
    return page("/changes", kind=kind, subject=subject)


def find_served(client: Client, cases: Sequence[Case]) -> list[Case]:
    """Ask each case for the first time; say which cannot be asked."""
    served = []
    for case in cases:
        for path in (case.paths * _WARM)[:_WARM]:
            answer = client.ask(path)
        case.answer = answer.body
        if answer.status == HTTPStatus.OK:
            served.append(case)
        else:
            print(f"{answer.status} {path}\n    {answer.body[:_SHOWN]!r}")
    return served


def measure_cpu(
    client: Client, cases: Sequence[Case], processes: Sequence[psutil.Process]
) -> None:
    """Ask each case several times in a row, and see what *processes* work for it."""
    for case in cases:
        before_s = sum(map(cpu_of, processes))
        times = _IN_A_ROW if case.p50_ms < GOAL_MS * 4 else 2
        for number in range(times):
            client.ask(case.paths[number % len(case.paths)])
        cpu_s = sum(map(cpu_of, processes)) - before_s
        case.cpu_ms = cpu_s / times * 1000


def ask_in_turns(client: Client, served: Sequence[Case], rounds: int) -> None:
    """Ask each case once in each of *rounds*, but none for minutes in all."""
    for number in range(rounds):
        for case in served:
            if sum(case.took_ms) > _ENOUGH_MS:
                continue
            answer = client.ask(case.paths[number % len(case.paths)])
            assert answer.status == HTTPStatus.OK, (case.name, answer)
            case.took_ms.append(answer.took_s * 1000)


def print_table(cases: Sequence[Case]) -> None:
    """Print what each case took, and mark what took too long."""
    print(f"\n{'list':<37}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>9}{'KB':>9}")
    for case in cases:
        if not case.took_ms:
            print(f"{case.name:<37}   not served")
            continue
        mark = f"  over {GOAL_MS:g}" if case.p95_ms > GOAL_MS else ""
        print(
            f"{case.name:<37}{case.p50_ms:>9.1f}{case.p95_ms:>9.1f}"
            f"{case.cpu_ms:>9.1f}{len(case.answer) / 1000:>9.1f}{mark}"
        )


def measure(made: Installation, options: Any) -> list[Case]:
    """Ask ``minutehand web``; print its memory and what a request costs it."""
    servers = made.servers
    with run_web(servers) as web, psycopg.connect(servers.dsn) as connection:
        connection.execute("set timezone to 'UTC'")
        idle_mb, _ = web.measure()
        cases = make_cases(Facts(connection, made))
        connection.rollback()
        if options.only:
            cases = [each for each in cases if options.only in each.name]
        client = Client(f"http://127.0.0.1:{web.port}", web.keys)
        _, before_s = web.measure()
        served = find_served(client, cases)
        ask_in_turns(client, served, options.rounds)
        memory_mb, cpu_s = web.measure()
        measure_cpu(client, served, [web.process, *web.find_backends(servers)])
        client.close()
    asked = sum(len(each.took_ms) for each in cases)
    print_table(cases)
    print(
        f"\nthe web process: {idle_mb:.0f} MB before, {memory_mb:.0f} MB after "
        f"{asked:,} requests; {(cpu_s - before_s) / max(1, asked) * 1000:.1f} ms of "
        "CPU each"
    )
    return cases


def measure_flower(servers: Servers, tasks: int, rounds: int) -> list[Case]:
    """Ask Flower for its tasks."""
    with run_flower(servers, tasks) as flower:
        cases = [
            Case("Flower: 50 tasks", ["/api/tasks?limit=50"]),
            Case("Flower: 50, sorted", ["/api/tasks?limit=50&sort_by=-received"]),
            Case(
                "Flower: 50, deep",
                [f"/api/tasks?limit=50&offset={flower.kept * 9 // 10}"],
            ),
            Case("Flower: 50 failed", ["/api/tasks?limit=50&state=FAILURE"]),
            Case("Flower: 50, text", ["/api/tasks?limit=50&search=report+77777"]),
            Case("Flower: one task", [f"/api/task/info/{i}" for i in flower.newest]),
        ]
        client = Client(flower.url)
        served = find_served(client, cases)
        ask_in_turns(client, served, rounds)
        measure_cpu(client, served, [flower.process])
        client.close()
        memory_mb = flower.process.memory_info().rss / 2**20
    print_table(cases)
    print(
        f"\nFlower was told of {tasks:,} tasks and keeps {flower.kept:,}, in "
        f"{memory_mb:,.0f} MB of memory"
    )
    return cases


def main() -> int:
    """Fill, ask, print; return 1 if a list took too long."""
    parser = make_parser("api_lists", __doc__)
    add_operations(parser)
    parser.add_argument("--rounds", type=int, default=100, help="requests of each case")
    parser.add_argument("--only", help="cases with this in their name")
    parser.add_argument("--flower", type=int, default=MOST, help="tasks; 0: without")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    with run_servers() as servers:
        made = fill_shown(empty(servers, "lists"), options.operations)
        cases = measure(made, options)
        if options.flower:
            cases += measure_flower(servers, options.flower, options.rounds)
        print(describe_load())
    if options.json:
        rows = [
            {"name": each.name, "p50_ms": each.p50_ms, "p95_ms": each.p95_ms}
            for each in cases
            if each.took_ms
        ]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    ours = [each for each in cases if not each.name.startswith("Flower")]
    return int(any(each.took_ms and each.p95_ms > GOAL_MS for each in ours))


if __name__ == "__main__":
    sys.exit(run_command(main))
