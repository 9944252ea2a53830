"""
What each page takes with a million operations, beside those of Flower and of the admin.

Run it as ``python -m benchmarks.web_pages``. Fills a PostgreSQL of its own, starts
``minutehand web``, and asks each page in turns, so that what disturbs the machine
disturbs all of them. Each is to have a p95 below 150 ms, and its document less than 200
KB; lists that go through 100,000 operations and more are to be below 200 ms.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import psycopg

from benchmarks.api_lists import (
    Case,
    Facts,
    ask_in_turns,
    find_served,
    measure_cpu,
)
from benchmarks.command import add_operations, describe_load, make_parser, run_command
from benchmarks.django_admin_peer import run_admin
from benchmarks.flower_peer import MOST, run_flower
from benchmarks.installation import RARE_WORD, fill_shown
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.web import Client, run_web

#: What p95 is to be, at most; and of lists.
GOAL_MS = 150.0
LIST_GOAL_MS = 200.0

#: Bytes of a document, at most.
LARGEST = 200_000


def make_cases(facts: Facts) -> list[Case]:
    """Return what is asked for, page by page."""
    largest, busy = facts.made.app(1), "report-0"
    failed = facts.one("select id from operations where state = 'failed' limit 1")
    ran = facts.one("select operation_id from operation_steps limit 1")
    return [
        Case("Now", ["/"]),
        Case("Actions", ["/actions"]),
        Case("Actions, list of an app", [f"/actions?app={largest}"]),
        Case("Actions, list by text", [f"/actions?text={RARE_WORD}"]),
        Case("Action", [f"/actions/{busy}"]),
        Case("Editor", [f"/actions/{busy}/edit"]),
        Case("Operations, list", ["/operations"]),
        Case("Operations, list of failed", ["/operations?state=failed"]),
        Case("Operations, list of an app", [f"/operations?app={largest}"]),
        Case("Operations, list of an action", [f"/operations?action={busy}"]),
        Case("Operation", [f"/operations/{ran}"]),
        Case("Operation, failed", [f"/operations/{failed}"]),
        Case("Timeline", ["/timeline"]),
        Case("Timeline of an app", [f"/timeline?app={largest}"]),
        Case("Calendar", ["/calendar"]),
        Case("Calendar of an app", [f"/calendar?app={largest}"]),
        Case("Workers", ["/workers"]),
        Case("Data", ["/apps"]),
        Case("Data of an app", [f"/apps/{largest}"]),
        Case("Mails, list", ["/mails"]),
        Case("Mails, list of failed", ["/mails?state=failed"]),
        Case("Events, list", ["/events"]),
        Case("Settings", ["/settings"]),
    ]


def get_goal_ms(case: Case) -> float:
    """Return what the p95 of *case* is to be, at most."""
    return LIST_GOAL_MS if ", list" in case.name else GOAL_MS


def find_excess(case: Case) -> list[str]:
    """Return in what *case* is beyond its goals."""
    found = []
    if case.took_ms and case.p95_ms > get_goal_ms(case):
        found.append(f"over {get_goal_ms(case):g} ms")
    if len(case.answer) > LARGEST:
        found.append(f"over {LARGEST / 1000:g} KB")
    return found


def print_table(cases: Sequence[Case]) -> None:
    """Print what each page took, and mark what is beyond its goals."""
    print(f"\n{'page':<37}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>9}{'KB':>9}")
    for case in cases:
        if not case.took_ms:
            print(f"{case.name:<37}   not served")
            continue
        print(
            f"{case.name:<37}{case.p50_ms:>9.1f}{case.p95_ms:>9.1f}"
            f"{case.cpu_ms:>9.1f}{len(case.answer) / 1000:>9.1f}  "
            + ", ".join(find_excess(case))
        )


def measure(servers: Servers, options: argparse.Namespace) -> list[Case]:
    """Fill a database, and ask ``minutehand web`` for each page."""
    made = fill_shown(servers, options.operations)
    with run_web(servers) as web, psycopg.connect(servers.dsn) as connection:
        cases = make_cases(Facts(connection, made))
        connection.rollback()
        if options.only:
            cases = [each for each in cases if options.only in each.name]
        client = Client(f"http://127.0.0.1:{web.port}", web.keys)
        served = find_served(client, cases)
        ask_in_turns(client, served, options.rounds)
        measure_cpu(client, served, [web.process, *web.find_backends(servers)])
        client.close()
    print_table(cases)
    return cases


def measure_flower(servers: Servers, tasks: int, rounds: int) -> None:
    """Ask Flower for its pages; a script in them asks for the rows on its own."""
    rows = "/tasks/datatable?draw=1&start=0&length=15&search[value]="
    rows += "&order[0][column]=7&order[0][dir]=desc&columns[7][data]=received"
    with run_flower(servers, tasks) as flower:
        cases = [
            Case("Flower: workers", ["/workers"]),
            Case("Flower: tasks, without rows", ["/tasks"]),
            Case("Flower: the rows of tasks", [rows]),
            Case("Flower: one task", [f"/task/{each}" for each in flower.newest]),
        ]
        client = Client(flower.url)
        served = find_served(client, cases)
        ask_in_turns(client, served, rounds)
        measure_cpu(client, served, [flower.process])
        client.close()
    print_table(cases)


def measure_admin(servers: Servers, actions: int, rounds: int) -> None:
    """Ask the admin of django-celery-beat, which has no operations at all."""
    if find_spec("django_celery_beat") is None:
        print("\ndjango-celery-beat is not installed: see requirements-bench.lock")
        return
    with run_admin(servers, actions) as admin:
        here = "/admin/django_celery_beat/periodictask/"
        cases = [
            Case("django-celery-beat: list", [here]),
            Case("django-celery-beat: list, deep", [f"{here}?p=900"]),
            Case("django-celery-beat: list by text", [f"{here}?q=77777"]),
            Case("django-celery-beat: form", [f"{here}{actions // 2}/change/"]),
        ]
        client = Client(admin.url, headers={"Cookie": admin.cookie})
        served = find_served(client, cases)
        ask_in_turns(client, served, rounds)
        measure_cpu(client, served, [admin.process])
        client.close()
    print_table(cases)


def main() -> int:
    """Fill, ask, print; return 1 if a page is beyond its goals."""
    parser = make_parser("web_pages", __doc__)
    add_operations(parser)
    parser.add_argument("--rounds", type=int, default=50, help="requests of each page")
    parser.add_argument("--only", help="pages with this in their name")
    parser.add_argument("--flower", type=int, default=MOST, help="tasks; 0: without")
    parser.add_argument("--admin", type=int, default=100_000, help="tasks; 0: without")
    options = parser.parse_args()
    with run_servers() as servers:
        cases = measure(empty(servers, "pages"), options)
        if options.flower:
            measure_flower(servers, options.flower, options.rounds)
        if options.admin:
            measure_admin(empty(servers, "admin"), options.admin, options.rounds)
        print(describe_load())
    return int(any(find_excess(each) for each in cases))


if __name__ == "__main__":
    sys.exit(run_command(main))
