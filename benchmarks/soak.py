"""
Hours of a steady load, to see what grows: memory, connections, tables, lag.

Run it as ``make soak HOURS=2``. A scheduler, a worker, a web process and a worker of
a project's own live on one PostgreSQL and one Redis, and half of what is due each
minute goes through either worker. Each ten minutes a process is ended, in order or as
a power cut does, or the clock of the database is set for a minute (by Debian's
libfaketime, if it is there); what is done is made two days older and maintenance takes
it, as though an hour were days. Each minute a line of JSON says what there is;
``--picture`` draws the lines of an earlier run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import redis
from psycopg.rows import dict_row

from actions.own_actions import MAINTENANCE_UID
from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.peers.minutehand import Minutehand
from benchmarks.peers.peer import TASK, arguments_of
from benchmarks.picture import draw_soak
from benchmarks.servers import Servers
from benchmarks.tenants import find_first_minute
from benchmarks.workers import worker_command
from dispatch.manual_runs import run_now
from models.database.engine import make_engine
from models.operation_state import Overlap, Queue
from tests.chaos.servers import (
    Clock,
    Victim,
    make_clock,
    run_faulty_postgres,
    run_faulty_redis,
)
from tests.servers import ROOT, find_free_port

THEIRS = "theirs"

#: Between two happenings, and between two maintenances.
EVERY_S = 600.0

#: Samples are taken so long after a minute has begun.
_OFFSET_S = 45.0

_SHIFTS = {"clock ahead": timedelta(minutes=3), "clock back": -timedelta(hours=1)}
_HAPPENINGS = (
    *("scheduler restarted", "worker restarted", "clock ahead", "scheduler killed"),
    *("web restarted", "worker killed", "clock back"),
)

_NOT_SEEN = (httpx2.HTTPError, psycopg.Error, redis.RedisError, psutil.Error)

_OF_LAST_MINUTE = """
select count(*) as sent,
    percentile_cont(0.5) within group (order by late) as p50_s,
    percentile_cont(0.99) within group (order by late) as p99_s, max(late) as most_s
from (
    select extract(epoch from sent_at - occurrence)::float as late from operations
    where trigger = 'schedule' and sent_at between now() - interval '1 min' and now()
        and action_uid <> %(maintenance)s
) times
"""
#: Of minutes that are over, and were not pruned: how many have other than all.
_INCOMPLETE = """
select count(*) filter (where n <> %(due)s) as incomplete,
    coalesce((extract(epoch from max(occurrence) - min(occurrence)) / 60 + 1)::int
        - count(*), 0) as absent
from (
    select occurrence, count(*) as n from operations
    where trigger = 'schedule' and action_uid <> %(maintenance)s
        and recorded_at > now() - interval '1 day'
        and occurrence between now() - interval '15 min' and now() - interval '5 min'
    group by occurrence
) minutes
"""
_STATES = "select state, count(*) from operations group by state"
_CONNECTIONS = """
select count(*) from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
_TABLES = """
select relname, pg_total_relation_size(oid) / 1048576.0 as mb from pg_class
where relkind = 'r' and relnamespace = 'public'::regnamespace
order by mb desc limit 8
"""
_AGE = """
update operations set recorded_at = recorded_at - interval '2 days',
    finished_at = finished_at - interval '2 days'
where finished_at between now() - interval '1 day' and now() - interval '20 min'
"""


class Halves(Minutehand):
    """Half go straight to a project's worker, half through a worker of ours."""

    def steps_of(self, number: int) -> dict[str, object]:
        task = {"name": TASK, "kwargs": arguments_of(number), "queue": THEIRS}
        return {"run_task": task | ({"wait": True} if number % 2 else {})}

    def row_of(self, number: int) -> tuple[str, str]:
        return (Queue.TASKS if number % 2 else Queue.QUICK), Overlap.ALLOW.value


@dataclass
class Soak:
    """What runs; *clock* is that of PostgreSQL, None without libfaketime."""

    servers: Servers
    processes: dict[str, Victim]
    clock: Clock | None
    web_url: str
    due: int

    def happen(self, what: str) -> str:
        if what in _SHIFTS:
            if self.clock is None:
                return f"{what}: left out, for it needs Debian's libfaketime"
            self.clock.set(_SHIFTS[what])
        else:
            name, how = what.split()
            victim = self.processes[name]
            victim.kill() if how == "killed" else victim.stop()
            victim.start()
        return what

    def maintain(self, connection: psycopg.Connection[Any]) -> int:
        """Make old what is done, and ask for maintenance; return how much was done."""
        aged = connection.execute(_AGE).rowcount
        engine = make_engine(self.servers.postgres)
        run_now(engine, MAINTENANCE_UID)
        engine.dispose()
        return aged

    def sample(self, connection: psycopg.Connection[Any]) -> dict[str, object]:
        asked = {"maintenance": MAINTENANCE_UID, "due": self.due}
        with connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(_OF_LAST_MINUTE, asked).fetchall()
            found += cursor.execute(_INCOMPLETE, asked).fetchall()
        with redis.Redis.from_url(self.servers.redis) as client:
            about: dict[str, Any] = client.info()
        httpx2.get(f"{self.web_url}/readyz", timeout=10).raise_for_status()
        return {
            **found[0],
            **found[1],
            "states": dict(connection.execute(_STATES).fetchall()),
            "memory_mb": {n: _memory_of(v) for n, v in self.processes.items()}
            | {"Redis": about["used_memory_rss"] / 2**20},
            "connections": {
                "PostgreSQL": connection.execute(_CONNECTIONS).fetchall()[0][0],
                "Redis": about["connected_clients"] - 1,
            },
            "tables_mb": {n: float(mb) for n, mb in connection.execute(_TABLES)},
            "keys_of_redis": about.get("db0", {}).get("keys", 0),
        }


def _memory_of(victim: Victim) -> float:
    """Return what a process and its children have, each shared page once, in MB."""
    root = psutil.Process(victim.pid)
    family = [root, *root.children(recursive=True)]
    return sum(each.memory_full_info().pss for each in family) / 2**20


@contextmanager
def run_soak(folder: Path, due: int) -> Iterator[Soak]:
    """Run all of it for the length of the block, from the next whole minute on."""
    clock = make_clock(folder)
    with ExitStack() as stack:
        postgres = stack.enter_context(run_faulty_postgres(clock))
        broker = stack.enter_context(run_faulty_redis(persistent=True))
        servers = Servers(postgres.url, broker.url)
        first = find_first_minute()
        Halves(servers, due, due).register_from(first)
        address = f"127.0.0.1:{find_free_port()}"
        environ = {
            **servers.settings,
            "MINUTEHAND_HOME": str(folder),
            "MINUTEHAND_SMTP_URL": str(folder / "mails"),
            "MINUTEHAND_WEB_ADDRESS": address,
            "MINUTEHAND_RETENTION": "P1D",
            "BENCHMARK_CASE": "plain",
        }
        ours = (sys.executable, "-m", "cli.main")
        commands: dict[str, Sequence[str]] = {
            "scheduler": (sys.executable, "scheduler_server.py"),
            "worker": (*ours, "worker"),
            "web": (*ours, "web"),
            "their worker": worker_command(THEIRS, 1, "-l", "ERROR"),
        }
        processes: dict[str, Victim] = {}
        for name, command in commands.items():
            log = folder / f"{name}.log"
            victim = Victim(name, command, log, environ=environ, cwd=ROOT)
            stack.enter_context(victim.running())
            processes[name] = victim
        yield Soak(servers, processes, clock, f"http://{address}", due)


def soak(running: Soak, hours: float, samples: Path) -> bool:
    """Write a line each minute for so long; return whether no minute lacks any."""
    is_whole = True
    began = next_look = time.monotonic()
    next_happening, happenings = began + EVERY_S / 2, cycle(_HAPPENINGS)
    next_maintenance = began + EVERY_S
    while next_look < began + hours * 3600:
        time.sleep(60 - (time.time() - _OFFSET_S) % 60)
        next_look = time.monotonic()
        line: dict[str, object] = {"minute": round((next_look - began) / 60)}
        try:
            with psycopg.connect(running.servers.dsn, autocommit=True) as connection:
                line |= running.sample(connection)
                is_whole &= not (line["incomplete"] or line["absent"])
                if next_look >= next_maintenance:
                    next_maintenance += EVERY_S
                    line["made_old"] = running.maintain(connection)
        except _NOT_SEEN as error:
            line["not_seen"] = f"{type(error).__name__}: {error}"
        if running.clock is not None:
            running.clock.set(timedelta(0))
        if next_look >= next_happening:
            next_happening += EVERY_S
            line["happened"] = running.happen(next(happenings))
        line["load"] = psutil.getloadavg()[0]
        with samples.open("a") as out:
            out.write(json.dumps(line) + "\n")
    return is_whole


def main() -> int:
    """Run it, or draw what an earlier run wrote; return the exit code."""
    parser = make_parser("benchmarks.soak", __doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--due", type=int, default=300, help="in each minute")
    parser.add_argument("--samples", type=Path, default=Path("build/soak.jsonl"))
    drawn = "draw --samples into this SVG, and run nothing"
    parser.add_argument("--picture", type=Path, help=drawn)
    options = parser.parse_args()
    if options.picture:
        lines = options.samples.read_text().splitlines()
        options.picture.write_text(draw_soak([json.loads(line) for line in lines]))
        return 0
    folder = options.samples.resolve().with_name("soak")
    folder.mkdir(parents=True, exist_ok=True)
    options.samples.unlink(missing_ok=True)
    with run_soak(folder, options.due) as running:
        is_whole = soak(running, options.hours, options.samples)
    print(f"{options.samples}; logs in {folder}; {describe_load()}")
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(run_command(main))
