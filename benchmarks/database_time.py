"""
What PostgreSQL itself spends on each page, list and command with a million operations.

Run it as ``python -m benchmarks.database_time``. Fills a PostgreSQL of its own, asks
``minutehand web`` for each page and each list of the API, calls the commands that
people type, and reads in the server's log how much CPU the statements of each took
together: see statement_log.py. Each is to stay below 50 ms, the first time, when the
web process has kept nothing, and in the middle of several. ``--statements`` prints the
dearest statement of what is beyond that.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus

import psycopg

from benchmarks import api_lists, web_pages
from benchmarks.api_lists import Facts
from benchmarks.command import add_operations, make_parser, run_command
from benchmarks.installation import RARE_WORD, fill_shown
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.statement_log import LOGGING, StatementLog
from benchmarks.web import Client, run_web

#: What the statements of one answer are to take together, at most.
GOAL_MS = 50.0

#: Columns of a statement that is printed.
_SHOWN = 300


@dataclass
class Case:
    """
    Something that is asked for.

    Args:
        ask: Asks for it once; *number* says which of several alike.

        spent_ms: By the database, each time.

        dearest: The milliseconds of the statement that took most, and its text.
    """

    name: str
    ask: Callable[[int], None]
    spent_ms: list[float] = field(default_factory=list)
    dearest: tuple[float, str] = (0.0, "")

    @property
    def first_ms(self) -> float:
        """The first time."""
        return self.spent_ms[0]

    @property
    def median_ms(self) -> float:
        """In the middle of all times."""
        return statistics.median(self.spent_ms)

    @property
    def is_over(self) -> bool:
        """Whether it is beyond the goal."""
        return max(self.first_ms, self.median_ms) > GOAL_MS


def make_pages(facts: Facts) -> list[tuple[str, list[str]]]:
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
        *((each.name, each.paths) for each in web_pages.make_cases(facts)),
        *((name, [path]) for name, path in more.items()),
    ]


def make_lists(facts: Facts) -> list[tuple[str, list[str]]]:
    """Return lists of the API, with their filters and from their middle."""
    root, largest, busy = api_lists.ROOT, facts.made.app(1), "report-0"
    more = {
        "operations, facets": "/operations/facets",
        "operations, facets, app": f"/operations/facets?app={largest}",
        "operations, facets, text": "/operations/facets?text=stock",
        "action counts": "/action-counts",
        "action documents": "/action-documents",
        "action, runs": f"/actions/{busy}/runs",
        "action, days": f"/actions/{busy}/days",
        "action, preview": f"/actions/{busy}/preview",
        "calendar": "/calendar",
        "timeline": "/timeline",
        "planned": "/planned",
        "queues": "/queues",
        "installation": "/installation",
        "support bundle": "/support-bundle",
        "app, calendar file": f"/apps/{largest}/calendar.ics",
    }
    return [
        *((f"api: {each.name}", each.paths) for each in api_lists.make_cases(facts)),
        *((f"api: {name}", [f"{root}{path}"]) for name, path in more.items()),
    ]


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


def _make_request(client: Client, paths: Sequence[str]) -> Callable[[int], None]:
    def ask(number: int) -> None:
        path = paths[number % len(paths)]
        answer = client.ask(path)
        if answer.status not in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}:
            print(f"{answer.status} {path}")

    return ask


def _make_call(command: str, servers: Servers, folder: str) -> Callable[[int], None]:
    environ = {
        **os.environ,
        "MINUTEHAND_DATABASE_URL": servers.postgres,
        "MINUTEHAND_BROKER_URL": servers.redis,
        "MINUTEHAND_HOME": folder,
    }
    call = (sys.executable, "-m", "cli.main", *command.split())

    def ask(_number: int) -> None:
        subprocess.run(call, env=environ, capture_output=True, check=False)

    return ask


def measure(cases: Sequence[Case], log: StatementLog, rounds: int) -> None:
    """Ask for each, in turns, and read what the database spent on it."""
    for number in range(rounds):
        for case in cases:
            log.read()
            case.ask(number)
            spent = log.read()
            case.spent_ms.append(sum(spent.values()))
            if spent:
                text, took_ms = max(spent.items(), key=lambda each: each[1])
                case.dearest = max(case.dearest, (took_ms, text))


def print_table(cases: Sequence[Case], *, statements: bool) -> None:
    """Print what each took, and mark what took too long."""
    print(f"\n{'asked for':<52}{'first ms':>9}{'median ms':>10}")
    for case in cases:
        mark = f"  over {GOAL_MS:g}" if case.is_over else ""
        print(f"{case.name:<52}{case.first_ms:>9.1f}{case.median_ms:>10.1f}{mark}")
        if statements and case.is_over:
            took_ms, text = case.dearest
            print(f"    {took_ms:.1f}: {text[:_SHOWN]}")


def measure_all(servers: Servers, facts: Facts, options: argparse.Namespace) -> bool:
    """Measure pages, lists and commands; return whether all reach the goal."""
    log = StatementLog(servers)
    with ExitStack() as stack:
        stack.callback(log.close)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        web = stack.enter_context(run_web(servers))
        client = Client(f"http://127.0.0.1:{web.port}", web.keys)
        stack.callback(client.close)
        asked = [*make_pages(facts), *make_lists(facts)]
        cases = [Case(name, _make_request(client, paths)) for name, paths in asked]
        # Each call is a process of its own, so all of them are the first.
        calls = [
            Case(f"$ {each}", _make_call(each, servers, folder))
            for each in make_commands(facts)
        ]
        cases, calls = (
            [each for each in chosen if options.only in each.name]
            for chosen in (cases, calls)
        )
        measure(cases, log, options.rounds)
        measure(calls, log, 1)
        cases += calls
    print_table(cases, statements=options.statements)
    return not any(each.is_over for each in cases)


def main() -> int:
    """Fill, ask, print; return 1 if something is beyond the goal."""
    parser = make_parser("database_time", __doc__)
    add_operations(parser)
    parser.add_argument("--rounds", type=int, default=5, help="of each")
    parser.add_argument("--only", default="", help="those with this in their name")
    parser.add_argument("--statements", action="store_true", help="show the dearest")
    options = parser.parse_args()
    with run_servers(LOGGING) as servers:
        made = fill_shown(empty(servers, "times"), options.operations)
        with psycopg.connect(made.servers.dsn, autocommit=True) as connection:
            connection.execute("set timezone to 'UTC'")
            good = measure_all(made.servers, Facts(connection, made), options)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(run_command(main))
