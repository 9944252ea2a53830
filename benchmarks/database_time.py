"""
What PostgreSQL spends on pages and lists with a million operations.

Run it as ``python -m benchmarks.database_time``. Fills a PostgreSQL of its own, asks
``minutehand web`` for each page and the largest lists of the API, and reads in the
server's log how much CPU the statements of each took together: neither the network nor
the client is part of it, nor parallel workers. Each is to stay below 50 ms, the first
time, when the web process has kept nothing, and in the middle of several.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.tenants import Quick
from tests.servers import find_free_port, run_process, wait_for_port

#: What the statements of one answer are to take together, at most.
GOAL_MS = 50.0

#: Of a request.
_PATIENCE_S = 30.0

#: Pages, and lists of the API; {failed} is the id of an operation.
ASKED = """
/ /actions /actions?trouble=any /actions?text=action+77 /actions/action-0
/operations /operations?state=failed /operations?action=action-0
/operations?range=all&text=took+nothing /operations/{failed} /timeline /calendar
/workers /apps /mails /events /settings/changes /settings/doctor /search?q=action
/api/v1/actions?limit=200 /api/v1/operations?limit=200
/api/v1/operations?app=app-7&state=failed /api/v1/operations/{failed}/steps /api/v1/load
"""

#: Bound by hand: what a benchmark inserts is no statement of the product.
_OPERATIONS = """
insert into operations (id, action_uid, action_revision, app, trigger, triggered_by,
    occurrence, queue, overlap, state, reason, error, attempt, recorded_at, send_at,
    sent_at, sends, started_at, finished_at, worker, fence)
select gen_random_uuid(), 'action-' || n %% 10000, 1, 'app-' || n %% 20, 'schedule',
    'Scheduled action "action ' || n %% 10000 || '"', at,
    case when n %% 10 = 0 then 'heavy' else 'quick' end,
    case when n %% 10 = 0 then 'skip' else 'allow' end,
    case when n %% 100 = 1 then 'failed' else 'succeeded' end,
    case when n %% 100 = 1 then 'step failed' end,
    case when n %% 100 = 1 then 'run_task: the broker took nothing within 5 s' end,
    1, at, at, at, 1, at, at + interval '1 s', 'quick@worker-1/ForkPoolWorker-1', 1
from (
    select n, %(start)s::timestamptz + n * interval '1 s' as at
    from generate_series(%(first)s::bigint, %(last)s::bigint) n
) numbers
"""
_STEPS = """
insert into operation_steps (operation_id, position, name, state, attempt, started_at,
    finished_at, progress, result)
select id, position, name, state, 1, started_at, finished_at,
    case name when 'refresh' then jsonb '{"done": 2, "total": 2, "note": "b"}' end,
    case name
        when 'refresh' then jsonb '{"refreshed": ["a", "b"], "reused": []}'
        when 'publish' then jsonb '{"published": ["a", "b"]}'
        when 'send_email' then jsonb '{"sent": 3, "failed": 0, "uncertain": 0}'
        else jsonb '{"task_id": "5f8d4d3c-8f0e-5d7d-9d6f-0f3a1f6f0c11"}' end
from operations cross join lateral unnest(
    case when queue = 'heavy' then array['refresh', 'publish']
    when hashtext(id::text) %% 9 in (0, 1) then array['send_email']
    else array['run_task'] end
) with ordinality as asked (name, position)
where recorded_at between %(begin)s and %(end)s
"""
_MARKS = """
insert into deliveries (operation_id, step, recipient, state, updated_at, app)
select s.operation_id, s.name, 'user-' || who, 'sent', s.finished_at, o.app
from operation_steps s join operations o on o.id = s.operation_id
cross join generate_series(1, 3) who
where s.name = 'send_email'
    and s.finished_at > %(begin)s and s.finished_at <= %(end)s + interval '1 s'
"""

_APPS = """
insert into small_apps (uid, name, created_at, updated_at)
select 'app-' || n, 'App ' || n, now(), now() from generate_series(0, 19) n
"""
_FAILED = "select id from operations where state = 'failed' limit 1"

_SIZES = """
select relname, pg_table_size(oid) / 1048576, pg_indexes_size(oid) / 1048576
from pg_class where relname in ('operations', 'operation_steps', 'deliveries')
"""

#: Operations inserted at once: each insert ends well within the deadline.
_CHUNK = 50_000

#: Options of a server whose log can be read.
LOGGING = (
    *("-c", "logging_collector=on", "-c", "log_rotation_age=0"),
    *("-c", "log_rotation_size=0", "-c", "log_min_messages=log"),
)

#: Of the parts of a statement: parsing, binding, executing it.
_SPENT = re.compile(r"([\d.]+) s user, ([\d.]+) s system, [\d.]+ s elapsed")


class StatementLog:
    """Reads the log of a server, of one database, from one look to the next."""

    def __init__(self, servers: Servers) -> None:
        """Have all sessions that begin from now on tell what they spend."""
        self._connection = psycopg.connect(servers.dsn, autocommit=True)
        (name,) = self._ask("select current_database()")
        self._connection.execute(f"alter database {name} set log_statement_stats = on")
        self._connection.execute("set log_min_messages = log")
        (self._offset,) = self._ask(
            "select size from pg_stat_file(pg_current_logfile())"
        )
        with psycopg.connect(servers.dsn) as other:
            other.execute("select 1")
        assert self.read(), "the server logs no statement: see LOGGING"

    def _ask(self, query: str, *values: object) -> tuple[Any, ...]:
        return self._connection.execute(query, values).fetchall()[0]

    def read(self) -> list[float]:
        """Return the milliseconds of each part of a statement since the last look."""
        mark = f"mark at {self._offset} of the benchmark"
        self._connection.execute(f"do $$ begin raise log '{mark}'; end $$")
        found = ""
        # The collector writes what it was told before, but a moment later.
        while f"LOG:  {mark}" not in found:
            time.sleep(0.005)
            query = "select pg_read_binary_file(pg_current_logfile(), %s, 100000000)"
            (more,) = self._ask(query, self._offset)
            self._offset += len(more)
            found += bytes(more).decode(errors="replace")
        pairs = _SPENT.findall(found)
        return [(float(user) + float(system)) * 1000 for user, system in pairs]


@dataclass
class Case:
    """Something that is asked for, and what the database spent on it each time."""

    name: str
    ask: Callable[[], object]
    spent_ms: list[float] = field(default_factory=list)

    def measure(self, log: StatementLog) -> None:
        log.read()
        self.ask()
        self.spent_ms.append(sum(log.read()))

    def tell(self) -> bool:
        """Print a line of it; return whether it reaches the goal."""
        first_ms, median_ms = self.spent_ms[0], statistics.median(self.spent_ms)
        is_good = max(first_ms, median_ms) <= GOAL_MS
        mark = "" if is_good else f"  over {GOAL_MS:g}"
        print(f"{self.name:<52}{first_ms:>9.1f}{median_ms:>10.1f}{mark}")
        return is_good


def ask_page(client: httpx2.Client, path: str) -> None:
    if not client.get(path).is_success:
        print(f"no answer of 200 to {path}")


def fill(servers: Servers, count: int, start: datetime) -> None:
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        for first in range(1, count + 1, _CHUNK):
            last = min(count, first + _CHUNK - 1)
            begin, end = (start + n * timedelta(seconds=1) for n in (first, last))
            values = {"first": first, "last": last, "start": start}
            values |= {"begin": begin, "end": end}
            for statement in (_OPERATIONS, _STEPS, _MARKS):
                connection.execute(statement, values)


def prepare(servers: Servers, count: int) -> str:
    """Fill an empty database; return the id of one operation that failed."""
    Quick(servers, count // 10, 0).register()
    fill(servers, count, datetime.now(UTC) - count * timedelta(seconds=1))
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        connection.execute(_APPS)
        connection.execute("vacuum analyze")
        for name, table, indexes in connection.execute(_SIZES):
            print(f"{name}: {table} MB, its indexes {indexes} MB")
        return str(connection.execute(_FAILED).fetchall()[0][0])


def measure_all(servers: Servers, options: argparse.Namespace) -> bool:
    failed = prepare(servers, options.operations)
    log, port = StatementLog(servers), find_free_port()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environ = {
            **servers.settings,
            "MINUTEHAND_HOME": str(folder),
            "MINUTEHAND_WEB_ADDRESS": f"127.0.0.1:{port}",
        }
        command = (sys.executable, "-m", "cli.main")
        asked = ("keys", "create", "--all", "--role", "admin", "--json")
        answer = subprocess.check_output(
            (*command, *asked), env={**os.environ, **environ}
        )
        web, out = (*command, "web"), folder / "web.log"
        process = stack.enter_context(run_process(web, log=out, environ=environ))
        wait_for_port(port, process, log=out)
        client = httpx2.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {json.loads(answer)['key']}"},
            timeout=_PATIENCE_S,
        )
        stack.enter_context(client)
        paths = ASKED.format(failed=failed).split()
        cases = [Case(each, partial(ask_page, client, each)) for each in paths]
        for case in cases * options.rounds:
            case.measure(log)
    print(f"\n{'asked for':<52}{'first ms':>9}{'median ms':>10}")
    good = [each.tell() for each in cases]
    return all(good)


def main() -> int:
    parser = make_parser("benchmarks.database_time", __doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="of each")
    options = parser.parse_args()
    with run_servers(LOGGING) as servers:
        good = measure_all(empty(servers, "times"), options)
    print(describe_load())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(run_command(main))
