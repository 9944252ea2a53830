"""
Tasks of a project's own, from the due instant to the end of their operations.

Run it as ``python -m benchmarks.tasks``. So many actions, each a lone ``run_task``, are
due in one true minute; a real ``scheduler_server.py`` sends them straight to a queue
where a Celery worker of the project's takes them, whose task does nothing. There is no
worker of ours. With ``--held`` the scheduler is stopped while that worker works, so
that all answers are there at once when it goes on: how fast it takes them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import psutil
import psycopg
import redis

from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.peers.minutehand import Minutehand
from benchmarks.servers import Servers, empty, run_servers, to_environment
from benchmarks.tenants import HEAD_START_S, find_first_minute, run_scheduler
from benchmarks.workers import cpu_of

QUEUE = "theirs"

#: Until all operations are final.
_PATIENCE_S = 600.0

_LOOK_EVERY_S = 0.02

_COUNTS = """
select count(*) filter (where sends > 0),
    count(*) filter (where finished_at is not null)
from operations
"""


class Theirs(Minutehand):
    """All go to one queue, once: the next minutes would come while they run."""

    def queue_of(self, number: int) -> str:  # noqa: ARG002 - all the same
        """Return the queue of a schedule by its number."""
        return QUEUE

    def rule_of(self, number: int, now: datetime) -> dict[str, str]:  # noqa: ARG002
        """Return when a schedule is due, by its number."""
        rule = f"{now.minute} {now.hour} {now.day} {now.month} *"
        return {"cron_rule": rule, "timezone": "UTC"}


@contextmanager
def run_their_worker(servers: Servers, concurrency: int) -> Iterator[psutil.Process]:
    """Run a project's worker of their queue for the length of the block."""
    environment = to_environment(servers) | {"BENCHMARK_CASE": "plain"}
    command = [
        *(sys.executable, "-m", "celery", "-A", "benchmarks.worker_app", "worker"),
        *("-Q", QUEUE, "-c", str(concurrency), "-l", "ERROR", "--without-mingle"),
    ]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def measure(servers: Servers, due: int, concurrency: int, *, held: bool) -> list[str]:
    """Return what was seen, in lines for people."""
    servers = empty(servers, "tasks")
    peer = Theirs(servers, due, due)
    at = find_first_minute(time.time() + HEAD_START_S + due / 2_000)
    peer.register_from(at)
    roots = psutil.Process().children()
    with (
        run_their_worker(servers, concurrency) as worker,
        run_scheduler(servers) as process,
        redis.Redis.from_url(servers.redis) as client,
        psycopg.connect(servers.dsn, autocommit=True) as connection,
    ):
        scheduler = psutil.Process(process.pid)
        while datetime.now(UTC) < at:
            time.sleep(0.001)
        began = [cpu_of(each) for each in (scheduler, worker)]
        servers_began = sum(map(_cpu_of_server, roots))
        lines: list[str] = []

        def note(what: str) -> float:
            lag_s = (datetime.now(UTC) - at).total_seconds()
            lines.append(f"{what}: {lag_s:.2f} s after it was due")
            return lag_s

        def wait(column: int) -> None:
            give_up_at = time.monotonic() + _PATIENCE_S
            while (row := connection.execute(_COUNTS).fetchone()) is None or (
                row[column] < due
            ):
                assert time.monotonic() < give_up_at, f"only {row} of {due}"
                time.sleep(_LOOK_EVERY_S)

        wait(0)
        note("last sent")
        sent_cpu = cpu_of(scheduler) - began[0]
        if held:
            os.kill(process.pid, signal.SIGSTOP)
        while client.llen(QUEUE) or client.hlen("unacked"):
            time.sleep(_LOOK_EVERY_S)
        ended_s = note("their last task ended")
        if held:
            os.kill(process.pid, signal.SIGCONT)
            resumed = time.monotonic()
        wait(1)
        final_s = note("last operation final")
        if held:
            rate = due / (time.monotonic() - resumed)
            lines.append(f"answers that waited: {rate:,.0f} a second")
        else:
            lines.append(f"last final after their last end: {final_s - ended_s:.2f} s")
        cpu = cpu_of(scheduler) - began[0]
        theirs = cpu_of(worker) - began[1]
        shared = sum(map(_cpu_of_server, roots)) - servers_began
    lines.append(
        f"CPU of each, ms: scheduler until sent {sent_cpu / due * 1000:.2f},"
        f" until final {cpu / due * 1000:.2f}; PostgreSQL and Redis"
        f" {shared / due * 1000:.2f}; their worker {theirs / due * 1000:.2f}"
    )
    return lines


def _cpu_of_server(root: psutil.Process) -> float:
    """Return the seconds of CPU of a server, with sessions that have ended."""
    times, sessions = root.cpu_times(), root.children(recursive=True)
    return sum(times[:4]) + sum(sum(each.cpu_times()[:2]) for each in sessions)


def main() -> int:
    """Print what was seen; return the exit code."""
    parser = make_parser("tasks", __doc__)
    parser.add_argument("--due", type=int, default=2_000)
    parser.add_argument("--concurrency", type=int, default=2, help="of their worker")
    parser.add_argument("--held", action="store_true", help="answers come at once")
    options = parser.parse_args()
    with run_servers() as servers:
        lines = measure(servers, options.due, options.concurrency, held=options.held)
    print("\n".join([f"{options.due:,} due", *lines, describe_load()]))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
