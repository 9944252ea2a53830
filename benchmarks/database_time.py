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
from http import HTTPStatus

import psycopg

from benchmarks.asked import Facts, make_commands, make_lists, make_pages
from benchmarks.command import add_operations, make_parser, run_command
from benchmarks.installation import fill_shown
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
