"""
What PostgreSQL spends on pages, lists, commands and programs with a million operations.

Run it as ``python -m benchmarks.database_time``. Fills a PostgreSQL of its own, asks
``minutehand web`` for each page and the largest lists of the API, calls commands that
people type, and reads in the server's log how much CPU the statements of each took
together: see statement_log.py. Each is to stay below 50 ms, the first time, when the
web process has kept nothing, and in the middle of several. So is each turn of what the
leader and workers do, while 300,000 operations wait beside the million; it is done in
this process. ``--statements`` prints the dearest statement of what is beyond that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx2
import psycopg
import sqlalchemy as sa

from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.statement_log import LOGGING, StatementLog
from benchmarks.tenants import Quick
from celery_app.answer_reader import AnswerReader
from celery_app.task_sender import CeleryTaskSender
from dispatch.noticer import Noticer
from models.database.engine import make_engine
from operations.adapters.prune import DatabasePrune
from operations.claiming.claim import claim_operation
from tests.servers import find_free_port, run_process, wait_for_port

#: What the statements of one answer are to take together, at most.
GOAL_MS = 50.0

#: Of a request.
_PATIENCE_S = 30.0

#: Operations that wait while programs take their turns.
WAITING = 300_000

#: Messages that a turn sends at most, and rows that one removes.
_FEW = 100

#: Columns of a statement that is printed.
_SHOWN = 300

#: Pages, and lists of the API; {failed} is the id of an operation.
ASKED = (
    "/",
    "/actions",
    "/actions?trouble=any",
    "/actions?text=action+77",
    "/actions/action-0",
    "/operations",
    "/operations?state=failed",
    "/operations?action=action-0",
    "/operations?range=all&text=took+nothing",
    "/operations/{failed}",
    "/timeline",
    "/calendar",
    "/workers",
    "/apps",
    "/mails",
    "/events",
    "/settings/changes",
    "/settings/doctor",
    "/search?q=action",
    "/api/v1/actions?limit=200",
    "/api/v1/operations?limit=200",
    "/api/v1/operations?app=app-7&state=failed",
    "/api/v1/operations/{failed}/steps",
    "/api/v1/load",
)

COMMANDS = (
    "status",
    "doctor",
    "apps list",
    "actions show action-0",
    "operations list",
    "operations list --action action-1 --state failed",
    "operations show {failed}",
    "load",
    "tick --dry-run",
)

#: Bound by hand: what a benchmark inserts is no statement of the product.
_OPERATIONS = """
insert into operations (id, action_uid, action_revision, app, trigger, triggered_by,
    occurrence, queue, overlap, state, reason, error, attempt, recorded_at, send_at,
    sent_at, sends, started_at, finished_at, worker, fence)
select gen_random_uuid(), 'action-' || n % 10000, 1, 'app-' || n % 20, 'schedule',
    'Scheduled action "action ' || n % 10000 || '"', at,
    case when n % 10 = 0 then 'heavy' else 'quick' end,
    case when n % 10 = 0 then 'skip' else 'allow' end,
    case when n % 100 = 1 then 'failed' else 'succeeded' end,
    case when n % 100 = 1 then 'step failed' end,
    case when n % 100 = 1 then 'run_task: the broker took nothing within 5 s' end,
    1, at, at, at, 1, at, at + interval '1 s', 'quick@worker-1/ForkPoolWorker-1', 1
from (
    select n, cast(:start as timestamptz) + n * interval '1 s' as at
    from generate_series(cast(:first as bigint), cast(:last as bigint)) n
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
    when hashtext(cast(id as text)) % 9 in (0, 1) then array['send_email']
    else array['run_task'] end
) with ordinality as asked (name, position)
where recorded_at between cast(:begin as timestamptz) and cast(:end as timestamptz)
"""
_MARKS = """
insert into deliveries (operation_id, step, recipient, state, updated_at)
select operation_id, name, 'user-' || who, 'sent', finished_at
from operation_steps cross join generate_series(1, 3) who
where name = 'send_email'
    and finished_at > cast(:begin as timestamptz)
    and finished_at <= cast(:end as timestamptz) + interval '1 s'
"""

_APPS = """
insert into small_apps (uid, name, created_at, updated_at)
select 'app-' || n, 'App ' || n, now(), now() from generate_series(0, 19) n
"""
#: Of each hundred that wait, 80 may be sent, five are heavy, five wait in line, and ten
#: are tasks whose end is waited for.
_WAITING = """
insert into operations (id, action_uid, action_revision, app, trigger, triggered_by,
    occurrence, queue, overlap, state, reason, attempt, recorded_at, send_at, sends)
select gen_random_uuid(), 'action-' || n, 1, 'app-' || n %% 20, 'schedule', 'waits', at,
    case when kind < 5 then 'heavy' when kind < 15 then 'tasks' else 'quick' end,
    case when kind < 95 then 'allow' else 'queue' end, 'pending',
    case when kind between 5 and 14 then 'waits for a task: nothing' end, 0, at,
    case when kind between 5 and 14 then now() + interval '1 day' else at end, 0
from (select n %% 90000 as n, n %% 100 as kind, now() - n * interval '10 ms' as at
    from generate_series(1, %s) n) made
"""
_QUEUED = """
update operations set state = 'queued', sent_at = now(), sends = 1, lane = 1
where queue = 'quick' and state = 'pending' and hashtext(cast(id as text)) > 0
"""
_ONE_QUEUED = "select id from operations where state = 'queued' limit 1"
_FAILED = "select id from operations where state = 'failed' limit 1"


#: Operations inserted at once: each insert ends well within the deadline.
_CHUNK = 50_000


@dataclass
class Case:
    """
    Something that is asked for.

    Args:
        ask: Asks for it once.
        spent_ms: By the database, each time.
        dearest: The milliseconds of the statement that took most, and its text.
    """

    name: str
    ask: Callable[[], object]
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


def ask_page(client: httpx2.Client, path: str) -> None:
    """Ask for a page or a list, and tell if it is none."""
    if not client.get(path).is_success:
        print(f"no answer of 200 to {path}")


def run_program(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Call ``minutehand``; return what it prints."""
    done = subprocess.run(
        (sys.executable, "-m", "cli.main", *arguments),
        env={**os.environ, **environ},
        capture_output=True,
        check=False,
        text=True,
    )
    return done.stdout


def measure(cases: Sequence[Case], log: StatementLog, rounds: int) -> None:
    """Ask for each, in turns, and read what the database spent on it."""
    for _ in range(rounds):
        for case in cases:
            log.read()
            case.ask()
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


def fill(engine: sa.Engine, count: int, start: datetime) -> None:
    """Insert *count* finished operations, a second each, from *start* on."""
    for first in range(1, count + 1, _CHUNK):
        last = min(count, first + _CHUNK - 1)
        with engine.begin() as connection:
            connection.execute(sa.text("set local statement_timeout = '60 s'"))
            numbers = {"first": first, "last": last, "start": start}
            connection.execute(sa.text(_OPERATIONS), numbers)
            begin, end = (start + n * timedelta(seconds=1) for n in (first, last))
            for statement in (_STEPS, _MARKS):
                connection.execute(sa.text(statement), {"begin": begin, "end": end})


def prepare(servers: Servers, count: int) -> str:
    """Fill an empty database; return the id of one operation that failed."""
    Quick(servers, count // 10, 0).register()
    engine = make_engine(servers.postgres, timeout=timedelta(minutes=5))
    fill(engine, count, datetime.now(UTC) - count * timedelta(seconds=1))
    engine.dispose()
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        connection.execute(_APPS)
        connection.execute("vacuum analyze")
        found = connection.execute(_FAILED).fetchone()
    assert found is not None, "too few operations for one to have failed"
    return str(found[0])


def list_turns(servers: Servers) -> list[Case]:
    """Let 300,000 operations wait; return a turn of each thing that programs do."""
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        connection.execute(_WAITING, (WAITING,))
        connection.execute(_QUEUED)
        connection.execute("vacuum analyze")
        (queued,) = connection.execute(_ONE_QUEUED).fetchall()[0]
    peer = Quick(servers, 0, 0)
    peer.load()
    scheduler, engine = peer.scheduler, peer.scheduler.engine
    dispatcher = scheduler.dispatcher
    # What is read and written of each message is not the question here.
    dispatcher.outbox.chunk = _FEW
    prune, old = DatabasePrune(engine), datetime.now(UTC) - timedelta(days=1)
    sender = CeleryTaskSender(scheduler.settings)
    turns: dict[str, Callable[[], object]] = {
        "tick with nothing due": lambda: scheduler.tick(scheduler.read_clock()),
        "part of what is sent": dispatcher.send_waiting,
        "rescue": dispatcher.rescue,
        "notices": Noticer(engine, scheduler.leader, mail=("a@example.org",)).look,
        "claim": lambda: claim_operation(engine, queued, worker="benchmark"),
        "answers": AnswerReader(engine, sender, lambda *_: None).look,
        "operations removed": lambda: prune.prune("operations", before=old, limit=_FEW),
        "revisions removed": lambda: prune.prune("revisions", before=old, limit=_FEW),
        "events removed": lambda: prune.prune("events", before=old, limit=_FEW),
    }
    return [Case(f"> {name}", turn) for name, turn in turns.items()]


def measure_all(servers: Servers, options: argparse.Namespace) -> bool:
    """Measure pages, lists and commands; return whether all reach the goal."""
    failed = prepare(servers, options.operations)
    log, port = StatementLog(servers), find_free_port()
    with ExitStack() as stack:
        stack.callback(log.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environ = {
            "MINUTEHAND_DATABASE_URL": servers.postgres,
            "MINUTEHAND_BROKER_URL": servers.redis,
            "MINUTEHAND_HOME": str(folder),
            "MINUTEHAND_WEB_ADDRESS": f"127.0.0.1:{port}",
        }
        asked = ("keys", "create", "--all", "--role", "admin", "--json")
        key = json.loads(run_program(asked, environ))["key"]
        command, out = (sys.executable, "-m", "cli.main", "web"), folder / "web.log"
        process = stack.enter_context(run_process(command, log=out, environ=environ))
        wait_for_port(port, process, log=out)
        client = httpx2.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {key}"},
            timeout=_PATIENCE_S,
        )
        stack.enter_context(client)
        paths = [each.format(failed=failed) for each in ASKED]
        cases = [Case(each, partial(ask_page, client, each)) for each in paths]
        # Each call is a process of its own, so all of them are the first.
        calls = [
            Case(f"$ {each}", partial(run_program, each.split(), environ))
            for each in (each.format(failed=failed) for each in COMMANDS)
        ]
        measure(cases, log, options.rounds)
        measure(calls, log, 1)
        turns = list_turns(servers)
        measure(turns, log, options.rounds)
    found = [*cases, *calls, *turns]
    print_table(found, statements=options.statements)
    return not any(each.is_over for each in found)


def main() -> int:
    """Fill, ask, print; return 1 if something is beyond the goal."""
    parser = make_parser("database_time", __doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="of each")
    parser.add_argument("--statements", action="store_true", help="show the dearest")
    options = parser.parse_args()
    with run_servers(LOGGING) as servers:
        good = measure_all(empty(servers, "times"), options)
    print(describe_load())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(run_command(main))
